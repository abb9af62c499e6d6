// weights_copy all FROM TO: reads a file of torch.save() and writes all of it again.
// weights_copy weights FROM TO.pt|TO.safetensors: only its weights, with `module.` removed.
// weights_copy optimizer FROM TO NAME...: its optimizer's state, to names and back to numbers.
//
// Exits with 1 and one line on stderr if FROM is refused.

#include "base/file.hpp"
#include "trainer/weights_file.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {
namespace {

Result<void> copy_optimizer(
    const WeightsFile& file, const std::string& to, const std::vector<std::string>& names) {
  if (file.optimizer() == nullptr) return make_error(Errc::kNotFound, "no optimizer");
  const auto state = read_optimizer(*file.optimizer(), names);
  if (!state) return state.error();
  const auto dict = write_optimizer(state->tensors, names, state->groups.at(0));
  if (!dict) return dict.error();
  return write_torch_file(to, *dict);
}

Result<void> copy_all(const std::string& from, const std::string& to) {
  const auto content = read_file(from, kWeightsBytesMax);
  if (!content) return content.error();
  // Files that are not from torch are refused as in ddptrain.
  if (!content->starts_with("PK")) return read_weights_file(from).error();
  const auto file = decode_torch_file(std::as_bytes(std::span(*content)));
  if (!file) return with_context(from, file.error());
  return write_torch_file(to, file->root);
}

Result<void> copy(
    std::string_view what,
    const std::string& from,
    const std::string& to,
    const std::vector<std::string>& names) {
  if (what == "all") return copy_all(from, to);
  const auto file = read_weights_file(from);
  if (!file) return file.error();
  if (what == "optimizer") return copy_optimizer(**file, to, names);
  const auto& tensors = (*file)->weights().tensors;
  if (to.ends_with(".safetensors")) return write_safetensors_file(to, tensors, {});
  return write_torch_file(to, {.kind = to_dict(tensors)});
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() < 3) return 2;
  const auto done = ddprun::copy(words[0], words[1], words[2], {words.begin() + 3, words.end()});
  if (done) return 0;
  static_cast<void>(std::fprintf(stderr, "%s\n", done.error().detail.c_str()));
  return 1;
}
