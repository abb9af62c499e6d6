#include "trainer/weights_file.hpp"

#include "base/file.hpp"

#include <fmt/format.h>

#include <span>
#include <string_view>
#include <utility>

namespace ddprun {
namespace {

constexpr std::string_view kZipBegin = "PK\x03\x04";
// A pickle of the long number that marks torch's files before 1.6.
constexpr std::string_view kOldTorchBegin =
    "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
constexpr std::size_t kHeaderPlace = 8;  // offset of the JSON in safetensors

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::vector<std::string_view> texts_of(const std::vector<std::span<const std::byte>>& pieces) {
  std::vector<std::string_view> texts;
  for (const auto piece : pieces) {
    texts.emplace_back(reinterpret_cast<const char*>(piece.data()), piece.size());  // NOLINT
  }
  return texts;
}

}  // namespace

Result<std::unique_ptr<WeightsFile>> WeightsFile::decode(std::string content) {
  std::unique_ptr<WeightsFile> file(new WeightsFile(std::move(content)));
  const std::string_view text = file->content_;
  if (text.starts_with(kOldTorchBegin)) {
    return make_error(
        Errc::kCorrupt,
        "a file of torch.save() before torch 1.6; load it and save it again with a newer torch");
  }
  Result<void> done = make_error(Errc::kCorrupt, "neither a file of torch.save() nor safetensors");
  if (text.starts_with(kZipBegin)) {
    done = file->read_torch();
  } else if (text.size() > kHeaderPlace && text[kHeaderPlace] == '{') {
    done = file->read_safetensors();
  }
  if (!done) return done.error();
  return file;
}

Result<void> WeightsFile::read_safetensors() {
  format_ = WeightsFormat::kSafetensors;
  auto decoded = decode_safetensors(bytes_of(content_));
  if (!decoded) return decoded.error();
  file_.root = {.kind = to_dict(decoded->tensors)};
  weights_ = state_dict_of(std::move(decoded->tensors));
  return {};
}

Result<void> WeightsFile::read_torch() {
  auto file = decode_torch_file(bytes_of(content_));
  if (!file) return file.error();
  file_ = *std::move(file);
  auto weights = find_state_dict(file_.root);
  if (!weights) return weights.error();
  weights_ = *std::move(weights);
  return {};
}

Result<std::unique_ptr<WeightsFile>> read_weights_file(
    const std::filesystem::path& path, std::size_t bytes_max) {
  auto content = read_file(path, bytes_max);
  if (!content) return content.error();
  auto file = WeightsFile::decode(*std::move(content));
  if (!file) return with_context(path.string(), file.error());
  return file;
}

Result<void> write_torch_file(const std::filesystem::path& path, const PyValue& value) {
  const EncodedZip zip = encode_torch_file(value);
  return replace_file(path, texts_of(zip.pieces()));
}

Result<void> write_safetensors_file(
    const std::filesystem::path& path,
    std::vector<TensorView> tensors,
    const std::map<std::string, std::string>& metadata) {
  const EncodedTensors encoded = encode_safetensors(std::move(tensors), metadata);
  std::vector<std::span<const std::byte>> pieces = {bytes_of(encoded.head)};
  pieces.insert(pieces.end(), encoded.bodies.begin(), encoded.bodies.end());
  return replace_file(path, texts_of(pieces));
}

}  // namespace ddprun
