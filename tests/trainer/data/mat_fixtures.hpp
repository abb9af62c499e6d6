#pragma once

// MATLAB files with the table of ImageNet's devkit, built byte by byte.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <zlib.h>

namespace ddprun {

/// The parts of a row of the table that tests vary.
struct Synset {
  int number = 0;
  std::string wnid;
  int children = 0;
};

/// Writes as MATLAB does: small elements, numbers in the narrowest type, texts of 16 bits.
class MatWriter {
 public:
  static std::string little_endian(std::uint64_t value, std::size_t bytes) {
    std::string text;
    for (std::size_t i = 0; i < bytes; ++i, value >>= 8U) {
      text += static_cast<char>(value & 255U);
    }
    return text;
  }

  static std::string element(std::uint32_t type, std::string data) {
    const std::size_t bytes = data.size();
    if (bytes > 0 && bytes <= 4) {
      data.resize(4);
      return little_endian(bytes << 16U | type, 4) + data;
    }
    data.resize((bytes + 7) / 8 * 8);
    return little_endian(type, 4) + little_endian(bytes, 4) + data;
  }

  static std::string matrix(
      std::uint8_t array_class,
      std::size_t columns,
      const std::string& name,
      const std::string& content) {
    const std::string head = element(6, little_endian(array_class, 8)) +
                             element(5, little_endian(1, 4) + little_endian(columns, 4)) +
                             element(1, name);
    return element(14, head + content);
  }

  static std::string number(int value) {
    return matrix(
        6,
        1,
        "",
        value < 256 ? element(2, little_endian(value, 1)) : element(4, little_endian(value, 2)));
  }

  static std::string text(std::string_view letters) {
    std::string wide;
    for (const char letter : letters) {
      wide += letter;
      wide += '\0';
    }
    return matrix(4, letters.size(), "", element(4, wide));
  }

  /// The structs of devkits, in a variable of the given name.
  static std::string table(const std::vector<Synset>& synsets, const std::string& name) {
    constexpr std::size_t kNameBytes = 32;
    std::string names;
    for (const char* field :
         {"ILSVRC2012_ID",
          "WNID",
          "words",
          "gloss",
          "num_children",
          "children",
          "wordnet_height",
          "num_train_images"}) {
      names += field;
      names.resize((names.size() + kNameBytes - 1) / kNameBytes * kNameBytes);
    }
    std::string content = element(5, little_endian(kNameBytes, 4)) + element(1, names);
    for (const Synset& synset : synsets) {
      content += number(synset.number) + text(synset.wnid) + text("words") + text("") +
                 number(synset.children) + matrix(6, 2, "", element(2, "\1\2")) + number(1) +
                 number(732);
    }
    return matrix(2, synsets.size(), name, content);
  }

  static std::string packed(const std::string& variable) {
    uLongf bytes = ::compressBound(variable.size());
    std::string data(bytes, '\0');
    ::compress(
        reinterpret_cast<Bytef*>(data.data()),
        &bytes,
        reinterpret_cast<const Bytef*>(variable.data()),
        variable.size());
    data.resize(bytes);
    return little_endian(15, 4) + little_endian(bytes, 4) + data;
  }

  static std::string file(const std::string& variables) {
    std::string head = "MATLAB 5.0 MAT-file, Platform: GLNXA64";
    head.resize(124, ' ');
    return head + std::string("\0\1IM", 4) + variables;
  }
};

/// The meta.mat of a devkit.
inline std::string meta_mat(const std::vector<Synset>& synsets) {
  return MatWriter::file(MatWriter::packed(MatWriter::table(synsets, "synsets")));
}

}  // namespace ddprun
