#include "trainer/data/image_source.hpp"

#include "tests/trainer/data/cifar_fixtures.hpp"
#include "tests/trainer/data/fixtures.hpp"
#include "tests/trainer/data/mat_fixtures.hpp"
#include "trainer/core/cifar.hpp"
#include "trainer/data/encoded_images.hpp"
#include "trainer/data/image_file.hpp"
#include "trainer/data/stored_images.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include <sys/stat.h>
#include <zlib.h>

namespace ddprun {
namespace {

using namespace std::string_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Opened = Result<std::unique_ptr<ImageSource>>;

std::string refusal_of(const Opened& opened) {
  return opened ? "accepted" : opened.error().detail;
}

std::vector<std::int64_t> labels_of(const ImageSource& source) {
  std::vector<std::int64_t> labels;
  labels.reserve(source.size());
  for (std::int64_t sample = 0; sample < source.size(); ++sample) {
    labels.push_back(source.label(sample));
  }
  return labels;
}

class Folders : public DataDirectory {
 protected:
  Opened open(DataSplit split = DataSplit::kTrain) const {
    return EncodedImages::open(root_.string(), split);
  }
};

TEST_F(Folders, GiveEachFileTheNumberOfItsFolder) {
  write("train/b/2.jpg", jpeg_of(8, 6, 3, 1));
  write("train/a/1.JPEG", jpeg_of(10, 4, 1, 2));
  const auto source = open();
  ASSERT_TRUE(source) << refusal_of(source);
  EXPECT_THAT((*source)->classes(), ElementsAre("a", "b"));
  EXPECT_THAT(labels_of(**source), ElementsAre(0, 1));
  EXPECT_EQ((*source)->read(0)->size, (ImageSize{4, 10}));
  EXPECT_EQ((*source)->read(1)->size, (ImageSize{6, 8}));
}

TEST_F(Folders, AreFollowedThroughLinks) {
  write("elsewhere/1.jpg", jpeg_of(8, 8, 3, 1));
  std::filesystem::create_directories(root_ / "train");
  std::filesystem::create_directory_symlink(root_ / "elsewhere", root_ / "train/a");
  const auto source = open();
  ASSERT_TRUE(source) << refusal_of(source);
  EXPECT_EQ((*source)->size(), 1);
}

TEST_F(Folders, ThatLeadRoundInACircleAreRefused) {
  write("train/a/1.jpg", jpeg_of(8, 8, 3, 1));
  std::filesystem::create_directory_symlink(root_ / "train/a", root_ / "train/a/again");
  EXPECT_THAT(refusal_of(open()), HasSubstr("again/again"));
}

TEST_F(Folders, AreMissedWithTheFlagAndARemedy) {
  EXPECT_THAT(
      refusal_of(EncodedImages::open("/no/such/place", DataSplit::kTrain)),
      AllOf(HasSubstr("--data-dir /no/such/place"), HasSubstr("train and val")));
  EXPECT_THAT(refusal_of(open()), AllOf(HasSubstr("--data-dir"), HasSubstr("no folder 'train'")));
  write("train/a/1.jpg", "");
  EXPECT_THAT(refusal_of(open(DataSplit::kTest)), HasSubstr("no folder 'val'"));
}

TEST_F(Folders, WithoutAnImageAreNamed) {
  write("train/a/1.jpg", "");
  write("train/cats/readme.txt", "");
  EXPECT_THAT(
      refusal_of(open()),
      AllOf(HasSubstr("--data-dir"), HasSubstr("cats"), HasSubstr("put images there")));
}

TEST_F(Folders, NameTheFileThatIsTruncated) {
  const std::string whole = jpeg_of(64, 64, 3, 5);
  const auto path = write("train/a/1.jpg", whole.substr(0, whole.size() / 2));
  const auto image = (*open())->read(0);
  ASSERT_FALSE(image);
  EXPECT_TRUE(image.error().is(Errc::kCorrupt));
  EXPECT_THAT(image.error().detail, HasSubstr(path.string() + ": not a complete JPEG file"));
}

TEST_F(Folders, NameTheFileThatIsOfAnotherFormat) {
  const auto path = write("train/a/1.jpg", "RIFF....WEBP");
  EXPECT_THAT((*open())->read(0).error().detail, HasSubstr(path.string() + ": a WebP file"));
}

TEST_F(Folders, NameTheFileThatHasGone) {
  const auto path = write("train/a/1.jpg", "x");
  const auto source = open();
  std::filesystem::remove(path);
  const auto image = (*source)->read(0);
  ASSERT_FALSE(image);
  EXPECT_TRUE(image.error().is(Errc::kNotFound));
  EXPECT_THAT(image.error().detail, HasSubstr(path.string()));
}

TEST_F(Folders, OfTinyImagenetsValTakeTheClassesOfTrain) {
  write("train/n1/images/a.JPEG", jpeg_of(8, 8, 3, 1));
  write("train/n2/images/a.JPEG", jpeg_of(8, 8, 3, 1));
  write("val/images/val_7.JPEG", jpeg_of(8, 8, 3, 1));
  write("val/val_annotations.txt", "val_7.JPEG\tn2\t0\t0\t1\t1\n");
  const auto source = open(DataSplit::kTest);
  ASSERT_TRUE(source) << refusal_of(source);
  EXPECT_THAT(labels_of(**source), ElementsAre(1));
  EXPECT_THAT((*source)->classes(), ElementsAre("n1", "n2"));
}

/// Makes the archive `tar` from the files `what` in `directory`.
void pack_into(
    const std::filesystem::path& tar,
    const std::filesystem::path& directory,
    const std::string& what,
    const std::string& options = "-cf") {
  const std::string command =
      "tar -C '" + directory.string() + "' " + options + " '" + tar.string() + "' " + what;
  EXPECT_EQ(std::system(command.c_str()), 0);  // NOLINT(bugprone-command-processor): its own words
}

class Archive : public DataDirectory {
 protected:
  /// The folder `what` of the root as an archive next to it.
  std::filesystem::path pack(const std::string& what) const {
    pack_into(root_ / "data.tar", root_, what);
    return root_ / "data.tar";
  }
};

TEST_F(Archive, IsReadWithoutUnpacking) {
  write("tiny/train/b/2.jpg", jpeg_of(8, 6, 3, 1));
  write("tiny/train/a/" + std::string(150, 'n') + ".jpg", jpeg_of(10, 4, 1, 2));
  const auto folder = EncodedImages::open((root_ / "tiny").string(), DataSplit::kTrain);
  const auto archive = EncodedImages::open(pack("tiny").string(), DataSplit::kTrain);
  ASSERT_TRUE(archive) << refusal_of(archive);
  EXPECT_EQ((*archive)->classes(), (*folder)->classes());
  ASSERT_EQ((*archive)->size(), (*folder)->size());
  for (std::int64_t sample = 0; sample < 2; ++sample) {
    EXPECT_EQ((*archive)->label(sample), (*folder)->label(sample));
    EXPECT_EQ((*archive)->read(sample)->pixels, (*folder)->read(sample)->pixels);
  }
}

TEST_F(Archive, NamesAFolderWithoutAnImage) {
  write("train/a/1.jpg", jpeg_of(8, 6, 3, 1));
  std::filesystem::create_directories(root_ / "train/empty");
  EXPECT_THAT(
      refusal_of(EncodedImages::open(pack("train").string(), DataSplit::kTrain)),
      AllOf(HasSubstr("--data-dir"), HasSubstr("empty")));
}

TEST_F(Archive, IsRefusedWhenCutOffInAHeaderOrInAFile) {
  write("train/a/1.jpg", std::string(3'000, 'x'));
  const auto path = pack("train");
  for (const int bytes : {0, 100, 1'600, 2'500}) {
    std::filesystem::resize_file(path, static_cast<std::uintmax_t>(bytes));
    EXPECT_THAT(
        refusal_of(EncodedImages::open(path.string(), DataSplit::kTrain)),
        AllOf(HasSubstr("--data-dir"), HasSubstr("truncated")))
        << bytes;
    pack("train");
  }
}

TEST_F(Archive, IsNothingElse) {
  const auto path = write("data.tar", std::string(2'000, 'x'));
  EXPECT_THAT(
      refusal_of(EncodedImages::open(path.string(), DataSplit::kTrain)),
      HasSubstr("not a tar archive"));
}

/// ImageNet's archives with two images for each of two classes, whose numbers are not in the order
/// of their names.
class Imagenet : public DataDirectory {
 protected:
  void SetUp() override {
    DataDirectory::SetUp();
    const std::filesystem::path made = root_ / "made";
    for (const std::string& wnid : {"n2"s, "n1"s}) {
      write(fmt::format("made/{0}/{0}_9.JPEG", wnid), jpeg_of(9, 8, 3, wnid[1]));
      write(fmt::format("made/{0}/{0}_10.JPEG", wnid), jpeg_of(10, 8, 3, wnid[1]));
      pack_into(made / (wnid + ".tar"), made / wnid, fmt::format("{0}_9.JPEG {0}_10.JPEG", wnid));
    }
    pack_into(root_ / "ILSVRC2012_img_train.tar", made, "n2.tar n1.tar");
    for (const int number : {3, 1, 2, 4}) {
      write(
          "made/val/ILSVRC2012_val_0000000" + std::to_string(number) + ".JPEG",
          jpeg_of(number, 8, 3, 0));
    }
    pack_into(root_ / "ILSVRC2012_img_val.tar", made / "val", ".");
    write_devkit("1\n2\n2\n1\n");
  }

  void write_devkit(const std::string& truth) const {
    write(
        "made/ILSVRC2012_devkit_t12/data/meta.mat",
        meta_mat(
            {{.number = 1, .wnid = "n2"},
             {.number = 2, .wnid = "n1"},
             {.number = 3, .wnid = "n0", .children = 2}}));
    write("made/ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt", truth);
    pack_into(
        root_ / "ILSVRC2012_devkit_t12.tar.gz", root_ / "made", "ILSVRC2012_devkit_t12", "-czf");
  }

  Opened open(DataSplit split) const { return EncodedImages::open(root_.string(), split); }

  static std::vector<std::int64_t> widths_of(const ImageSource& source) {
    std::vector<std::int64_t> widths;
    widths.reserve(static_cast<std::size_t>(source.size()));
    for (std::int64_t sample = 0; sample < source.size(); ++sample) {
      widths.push_back(source.read(sample)->size.width);
    }
    return widths;
  }
};

TEST_F(Imagenet, TrainsOnAnArchiveOfArchivesInTheOrderOfFolders) {
  const auto source = open(DataSplit::kTrain);
  ASSERT_TRUE(source) << refusal_of(source);
  EXPECT_THAT((*source)->classes(), ElementsAre("n1", "n2"));
  EXPECT_THAT(labels_of(**source), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(widths_of(**source), ElementsAre(10, 9, 10, 9));  // n1_10 comes before n1_9
  EXPECT_EQ((*source)->read(3)->pixels, decode_image(jpeg_of(9, 8, 3, '2'))->pixels);
}

TEST_F(Imagenet, IsTestedOnTheClassesOfTheDevkit) {
  const auto source = open(DataSplit::kTest);
  ASSERT_TRUE(source) << refusal_of(source);
  EXPECT_THAT((*source)->classes(), ElementsAre("n1", "n2"));
  EXPECT_THAT(labels_of(**source), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(widths_of(**source), ElementsAre(2, 3, 1, 4));
}

TEST_F(Imagenet, ComesFromFoldersWhereTheyAreThere) {
  write("train/n3/1.JPEG", jpeg_of(8, 8, 3, 1));
  EXPECT_THAT((*open(DataSplit::kTrain))->classes(), ElementsAre("n3"));
}

TEST_F(Imagenet, NamesWhatIsMissing) {
  std::filesystem::remove(root_ / "ILSVRC2012_devkit_t12.tar.gz");
  EXPECT_THAT(
      refusal_of(open(DataSplit::kTest)),
      AllOf(
          HasSubstr("--data-dir"),
          HasSubstr("ILSVRC2012_devkit_t12.tar.gz"),
          HasSubstr("has the classes")));
  std::filesystem::remove(root_ / "ILSVRC2012_img_val.tar");
  EXPECT_THAT(
      refusal_of(open(DataSplit::kTest)),
      AllOf(HasSubstr("--data-dir"), HasSubstr("no folder 'val'")));
  pack_into(root_ / "ILSVRC2012_img_train.tar", root_ / "made", "val");
  EXPECT_THAT(refusal_of(open(DataSplit::kTrain)), HasSubstr("no archive of a class"));
}

TEST_F(Imagenet, IsRefusedWithMoreImagesThanTheDevkitKnows) {
  write_devkit("1\n2\n2\n");
  EXPECT_THAT(
      refusal_of(open(DataSplit::kTest)),
      AllOf(HasSubstr("ILSVRC2012_img_val.tar: 4 images"), HasSubstr("classes of 3")));
  write_devkit("1\n2\n2\n3\n");
  EXPECT_THAT(
      refusal_of(open(DataSplit::kTest)), HasSubstr("label 4 is not the number of a class"));
}

TEST_F(Imagenet, NamesTheArchiveOfAClassThatIsDamaged) {
  write("made/n1.tar", std::string(2'000, 'x'));
  pack_into(root_ / "ILSVRC2012_img_train.tar", root_ / "made", "n2.tar n1.tar");
  EXPECT_THAT(
      refusal_of(open(DataSplit::kTrain)),
      AllOf(HasSubstr("ILSVRC2012_img_train.tar/n1.tar: "), HasSubstr("not a tar archive")));
}

TEST_F(Imagenet, NamesTheImageThatIsDamaged) {
  write("made/n1/n1_9.JPEG", "hello");
  pack_into(root_ / "made/n1.tar", root_ / "made/n1", "n1_9.JPEG");
  pack_into(root_ / "ILSVRC2012_img_train.tar", root_ / "made", "n2.tar n1.tar");
  EXPECT_THAT(
      (*open(DataSplit::kTrain))->read(0).error().detail,
      HasSubstr("ILSVRC2012_img_train.tar/n1/n1_9.JPEG: not a complete JPEG file"));
}

class Cifar : public DataDirectory {
 protected:
  static std::string records(std::initializer_list<int> labels) {
    std::string bytes;
    for (const int label : labels) {
      bytes += static_cast<char>(label);
      bytes += std::string(kCifarPixelBytes, static_cast<char>(label * 20));
    }
    return bytes;
  }
  static std::string pickled(const std::vector<int>& labels) {
    std::string pixels;
    for (const int label : labels) {
      pixels += std::string(kCifarPixelBytes, static_cast<char>(label * 20));
    }
    return PickledBatch{.labels = labels, .pixels = pixels}.text();
  }
  void write_python_version() const {
    write("cifar-10-batches-py/data_batch_2", pickled({3}));
    write("cifar-10-batches-py/data_batch_1", pickled({1, 2}));
    write("cifar-10-batches-py/test_batch", pickled({9}));
    write("cifar-10-batches-py/batches.meta", cifar_meta());
  }
  Opened open(DataSplit split = DataSplit::kTrain, const std::string& below = "") const {
    return StoredImages::open_cifar10((root_ / below).string(), split);
  }
};

TEST_F(Cifar, OfPythonsVersionIsThatOfTheBinaryOne) {
  write_python_version();
  for (const char* place : {"", "cifar-10-batches-py"}) {
    const auto source = open(DataSplit::kTrain, place);
    ASSERT_TRUE(source) << refusal_of(source);
    EXPECT_THAT(labels_of(**source), ElementsAre(1, 2, 3));
    EXPECT_EQ((*source)->classes().at(9), "truck");
    EXPECT_THAT((*source)->read(2)->pixels, ::testing::Each(60));
    EXPECT_THAT(labels_of(**open(DataSplit::kTest, place)), ElementsAre(9));
  }
}

TEST_F(Cifar, IsReadFromAnArchiveOfEitherVersion) {
  write_python_version();
  pack_into(root_ / "cifar-10-python.tar.gz", root_, "cifar-10-batches-py", "-czf");
  pack_into(root_ / "plain.tar", root_, "cifar-10-batches-py");
  write("cifar-10-batches-bin/data_batch_1.bin", records({4, 5}));
  write("cifar-10-batches-bin/test_batch.bin", records({6}));
  pack_into(root_ / "cifar-10-binary.tar.gz", root_, "cifar-10-batches-bin", "-czf");
  std::filesystem::remove_all(root_ / "cifar-10-batches-bin");
  for (const char* place : {"cifar-10-python.tar.gz", "plain.tar"}) {
    const auto source = open(DataSplit::kTrain, place);
    ASSERT_TRUE(source) << refusal_of(source);
    EXPECT_THAT(labels_of(**source), ElementsAre(1, 2, 3));
    EXPECT_EQ((*source)->classes().at(0), "airplane");
    EXPECT_THAT(labels_of(**open(DataSplit::kTest, place)), ElementsAre(9));
  }
  EXPECT_THAT(labels_of(**open(DataSplit::kTest, "cifar-10-binary.tar.gz")), ElementsAre(6));
  std::filesystem::remove_all(root_ / "cifar-10-batches-py");
  EXPECT_THAT(labels_of(**open()), ElementsAre(4, 5));  // both archives in the directory
  std::filesystem::remove(root_ / "cifar-10-binary.tar.gz");
  EXPECT_THAT(labels_of(**open()), ElementsAre(1, 2, 3));
}

TEST_F(Cifar, NamesTheFileInAnArchiveThatIsDamaged) {
  write(
      "cifar-10-batches-py/data_batch_1",
      "\x80\x02"
      "cos\nsystem\nU\x04true\x85R.");
  pack_into(root_ / "evil.tar.gz", root_, "cifar-10-batches-py", "-czf");
  EXPECT_THAT(
      refusal_of(open(DataSplit::kTrain, "evil.tar.gz")),
      AllOf(HasSubstr("evil.tar.gz/data_batch_1: "), HasSubstr("'os system'")));
  EXPECT_THAT(refusal_of(open()), HasSubstr("cifar-10-batches-py/data_batch_1: "));
  EXPECT_THAT(refusal_of(open(DataSplit::kTest, "evil.tar.gz")), HasSubstr("--data-dir"));
}

TEST_F(Cifar, IsRefusedAsAnArchiveThatIsCutOffOrDamaged) {
  write_python_version();
  const auto path = root_ / "cifar-10-python.tar.gz";
  pack_into(path, root_, "cifar-10-batches-py", "-czf");
  const auto bytes = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, bytes / 2);
  EXPECT_THAT(
      refusal_of(open(DataSplit::kTrain, "cifar-10-python.tar.gz")),
      AllOf(HasSubstr("--data-dir"), HasSubstr(path.string()), HasSubstr("truncated")));
  write("cifar-10-python.tar.gz", "not gzip data");
  EXPECT_THAT(
      refusal_of(open(DataSplit::kTrain, "cifar-10-python.tar.gz")), HasSubstr("not gzip data"));
}

TEST_F(Cifar, JoinsItsFilesInOrder) {
  write("data_batch_2.bin", records({3}));
  write("data_batch_1.bin", records({1, 2}));
  write("test_batch.bin", records({9}));
  write("batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
  const auto source = open();
  ASSERT_TRUE(source) << refusal_of(source);
  EXPECT_THAT(labels_of(**source), ElementsAre(1, 2, 3));
  EXPECT_EQ((*source)->classes().at(2), "c");
  const auto image = (*source)->read(2);
  EXPECT_THAT(image->pixels, ::testing::Each(60));
  EXPECT_EQ(image->layout, Image::Layout::kPlanar);
  EXPECT_THAT(labels_of(**open(DataSplit::kTest)), ElementsAre(9));
}

TEST_F(Cifar, ReadsGzippedFilesAndTheUsualFolder) {
  const std::string bytes = records({4, 5});
  write("cifar-10-batches-bin/test_batch.bin", records({7}));
  gzFile file = ::gzopen((root_ / "cifar-10-batches-bin/data_batch_1.bin.gz").c_str(), "wb");
  ::gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  ::gzclose(file);
  EXPECT_THAT(labels_of(**open()), ElementsAre(4, 5));
  write("cifar-10-batches-bin/data_batch_1.bin", records({6}));  // not both
  EXPECT_THAT(labels_of(**open()), ElementsAre(6));
}

TEST_F(Cifar, IsMissedWithTheFlag) {
  EXPECT_THAT(refusal_of(open()), AllOf(HasSubstr("--data-dir"), HasSubstr("data_batch_*.bin")));
  EXPECT_THAT(
      refusal_of(StoredImages::open_cifar10("/no/such/place", DataSplit::kTrain)),
      HasSubstr("--data-dir /no/such/place"));
}

TEST_F(Cifar, IsRefusedWithHalfARecordOrAnEleventhClass) {
  write("data_batch_1.bin", records({1}) + "x");
  EXPECT_THAT(
      refusal_of(open()), AllOf(HasSubstr("data_batch_1.bin"), HasSubstr("not a multiple")));
  write("data_batch_1.bin", records({1, 10}));
  EXPECT_THAT(refusal_of(open()), HasSubstr("label 10 of record 1"));
  write("data_batch_1.bin", "");
  EXPECT_THAT(refusal_of(open()), HasSubstr("0 bytes"));
}

class Idx : public DataDirectory {
 protected:
  static std::string word(unsigned value) {
    return {
        static_cast<char>(value >> 24U),
        static_cast<char>(value >> 16U & 255U),
        static_cast<char>(value >> 8U & 255U),
        static_cast<char>(value & 255U)};
  }
};

TEST_F(Idx, HoldsImagesAndLabels) {
  write("train-images-idx3-ubyte", word(0x803) + word(2) + word(2) + word(3) + "abcdefghijkl");
  write("train-labels-idx1-ubyte", word(0x801) + word(2) + std::string("\x07\x00", 2));
  const auto source = StoredImages::open_idx(root_.string(), DataSplit::kTrain);
  ASSERT_TRUE(source) << refusal_of(source);
  EXPECT_THAT(labels_of(**source), ElementsAre(7, 0));
  const auto image = (*source)->read(1);
  EXPECT_EQ(image->size, (ImageSize{2, 3}));
  EXPECT_EQ(std::string(image->pixels.begin(), image->pixels.end()), "ghijkl");
}

TEST_F(Idx, IsNamedWhereItIsCutOff) {
  write("train-images-idx3-ubyte", word(0x803) + word(2) + word(2) + word(3) + "abcdefghijkl");
  write("train-labels-idx1-ubyte", word(0x801) + word(2) + "\x07");
  const auto labels = StoredImages::open_idx(root_.string(), DataSplit::kTrain);
  EXPECT_THAT(
      refusal_of(labels), AllOf(HasSubstr("/train-labels-idx1-ubyte: "), HasSubstr("truncated")));
  write("train-images-idx3-ubyte", word(0x803) + word(2) + word(2) + word(3) + "abcdefghijk");
  EXPECT_THAT(
      refusal_of(StoredImages::open_idx(root_.string(), DataSplit::kTrain)),
      AllOf(HasSubstr("/train-images-idx3-ubyte: "), HasSubstr("truncated")));
}

TEST_F(Idx, IsMissedWithTheFlag) {
  EXPECT_THAT(
      refusal_of(StoredImages::open_idx(root_.string(), DataSplit::kTest)),
      AllOf(HasSubstr("t10k-images-idx3-ubyte"), HasSubstr("--data-dir")));
}

}  // namespace
}  // namespace ddprun
