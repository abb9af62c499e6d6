#include "trainer/core/model_kind.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace ddprun {
namespace {

using ::testing::HasSubstr;

std::string refusal_of(const ModelOptions& options) {
  const auto checked = check_model(options);
  return checked ? "accepted" : checked.error().detail;
}

TEST(ModelKind, HasANameOfItsOwn) {
  std::set<std::string> names;
  for (const ModelKind kind : all_model_kinds()) {
    EXPECT_TRUE(names.insert(name_of(kind)).second) << name_of(kind);
  }
  EXPECT_EQ(names.size(), 17);
}

TEST(ModelKind, IsCalledAsInTorchvision) {
  EXPECT_STREQ(name_of(ModelKind::kResnet50), "resnet50");
  EXPECT_STREQ(name_of(ModelKind::kVitL32), "vit_l_32");
}

TEST(ModelKind, IsMadeForTheImagesOfItsOrigin) {
  EXPECT_EQ(default_image(ModelKind::kMyNet), (ImageShape{.channels = 1, .side = 28}));
  EXPECT_EQ(default_image(ModelKind::kResnet18), (ImageShape{.channels = 3, .side = 224}));
  EXPECT_EQ(default_image(ModelKind::kCrusoeVitHuge), (ImageShape{.channels = 3, .side = 128}));
  EXPECT_EQ(default_classes(ModelKind::kMyNet), 10);
  EXPECT_EQ(default_classes(ModelKind::kVitB16), 1000);
}

TEST(ModelOptions, AreAcceptedAsTheOriginHasThem) {
  for (const ModelKind kind : all_model_kinds()) {
    EXPECT_EQ(refusal_of(default_model(kind)), "accepted") << name_of(kind);
  }
}

TEST(ModelOptions, RefuseAnImageThatIsNoWholeNumberOfPatches) {
  ModelOptions options = default_model(ModelKind::kVitB32);
  options.image.side = 48;
  EXPECT_EQ(
      refusal_of(options),
      "model vit_b_32: image side 48 is not a multiple of its patch, 32 pixels");
  options.kind = ModelKind::kVitB16;
  EXPECT_EQ(refusal_of(options), "accepted");
}

TEST(ModelOptions, RefuseAnImageOfWhichNothingIsLeft) {
  ModelOptions options = default_model(ModelKind::kConvNet);
  options.image.side = 5;
  EXPECT_THAT(refusal_of(options), HasSubstr("image side 5 is less than 6 pixels"));
  options.image.side = 6;
  EXPECT_EQ(refusal_of(options), "accepted");
}

TEST(ModelOptions, RefuseNumbersOutOfRange) {
  ModelOptions options = default_model(ModelKind::kLinear);
  options.classes = 0;
  EXPECT_THAT(refusal_of(options), HasSubstr("classes 0 is not in 1..1000000"));
  options = default_model(ModelKind::kLinear);
  options.image.channels = 65;
  EXPECT_THAT(refusal_of(options), HasSubstr("channels 65"));
  options = default_model(ModelKind::kLinear);
  options.image.side = 4097;
  EXPECT_THAT(refusal_of(options), HasSubstr("image side 4097"));
}

TEST(ModelOptions, RefuseDropoutWhereItIsFixed) {
  ModelOptions options = default_model(ModelKind::kResnet18);
  options.dropout = 0.5;
  EXPECT_EQ(refusal_of(options), "model resnet18: its dropout is fixed");
  options = default_model(ModelKind::kVitB16);
  options.dropout = 0.5;
  EXPECT_EQ(refusal_of(options), "accepted");
  options.dropout = 1.0;
  EXPECT_THAT(refusal_of(options), HasSubstr("dropout 1 is not in [0, 1)"));
}

TEST(VitShape, CountsTheClassTokenAmongTheTokens) {
  EXPECT_EQ(vit_shape(ModelKind::kVitB16)->tokens(224), 197);
  EXPECT_EQ(vit_shape(ModelKind::kVitB32)->tokens(224), 50);
}

TEST(Shapes, AreThoseOfTheirFamilyAlone) {
  EXPECT_FALSE(resnet_shape(ModelKind::kVitB16));
  EXPECT_FALSE(vit_shape(ModelKind::kResnet18));
  EXPECT_FALSE(vit_shape(ModelKind::kConvNet));
}

}  // namespace
}  // namespace ddprun
