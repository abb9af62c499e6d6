#pragma once

// Files of CIFAR-10's Python version, byte for byte as Python 2 pickled them.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// The published batches.meta, md5 5ff9c542aee3614f3951f8cda6e48888.
inline std::string cifar_meta() {
  using namespace std::string_literals;
  std::string file =
      "\x80\x02}q\x01(U\x13num_cases_per_batchq\x02M\x10'U\x0blabel_namesq\x03]q\x04("s;
  char memo = 5;
  for (const std::string_view name :
       {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"}) {
    file += 'U';
    file += static_cast<char>(name.size());
    file += name;
    file += 'q';
    file += memo++;
  }
  return file + "eU\x07num_visq\x0fM\x00\x0cu."s;
}

/// The varying parts of a batch; the defaults are those of the published files.
struct PickledBatch {
  std::vector<int> labels;
  std::string pixels;  // all of them, in the order of the array
  std::string reconstruct = "numpy.core.multiarray\n_reconstruct";
  std::string code = "u1";
  char is_column_major = '\x89';  // False; '\x88' is True
  int columns = 3072;

  /// The file, with as many rows as there are labels.
  std::string text() const {
    using namespace std::string_literals;
    std::string file =
        "\x80\x02}q\x01(U\x0b"
        "batch_labelq\x02U\x15training batch 1 of 5q\x03U\x06labelsq\x04]q\x05("s;
    for (const int label : labels) {
      file += 'K';
      file += static_cast<char>(label);
    }
    file +=
        "eU\x04"
        "dataq\x06"
        "c" +
        reconstruct +
        "\nq\x07"
        "cnumpy\nndarray\nq\x08K\x00\x85U\x01"
        "bq\t\x87Rq\n(K\x01"s;
    file += number(labels.size()) + number(static_cast<std::size_t>(columns));
    file +=
        "\x86"
        "cnumpy\ndtype\nq\x0bU"s +
        static_cast<char>(code.size()) + code;
    file += "K\x00K\x01\x87Rq\x0c(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"s;
    file += is_column_major + "T"s + little_endian(pixels.size()) + pixels + "tb"s;
    file +=
        "U\tfilenamesq\r]q\x0e(U\x0f"
        "frog_s_0001.pngq\x0f"
        "eu.";
    return file;
  }

 private:
  static std::string little_endian(std::size_t value) {
    std::string bytes;
    for (int i = 0; i < 4; ++i, value >>= 8U) {
      bytes += static_cast<char>(value & 255U);
    }
    return bytes;
  }
  /// A whole number of two bytes.
  static std::string number(std::size_t value) { return "M" + little_endian(value).substr(0, 2); }
};

}  // namespace ddprun
