#include "trainer/weights.hpp"

#include "trainer/models/load_weights.hpp"
#include "trainer/weights_file.hpp"

#include <fmt/format.h>

namespace ddprun {

Result<std::string> begin_with(const Model& model, const std::string& path) {
  const auto file = read_weights_file(path);
  if (!file) return file.error();
  const auto report = load_weights(model, (*file)->weights().tensors);
  if (!report) return with_context(path, report.error());
  return fmt::format("{}: {}", path, summary_of(*report, state_of(model).size()));
}

Result<void> take_weights(const Model& model, const std::string& path) {
  const auto file = read_weights_file(path);
  if (!file) return file.error();
  const auto report = load_weights(model, (*file)->weights().tensors);
  if (report && report->is_complete()) return {};
  return make_error(
      Errc::kInvalidArgument,
      fmt::format(
          "{}: {}; --model, --classes and --image-size have to be those it was trained with",
          path,
          report ? summary_of(*report, state_of(model).size()) : report.error().detail));
}

}  // namespace ddprun
