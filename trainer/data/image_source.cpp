#include "trainer/data/image_source.hpp"

#include <fmt/format.h>

namespace ddprun {

Result<void> check_classes(
    const ImageSource& source, std::int64_t classes_of_model, std::string_view data_dir) {
  const std::int64_t has = std::ssize(source.classes());
  if (has == classes_of_model) return {};
  return make_error(
      Errc::kInvalidArgument,
      fmt::format(
          "--data-dir {} has {} classes and the model tells {} apart; give the model as many, or "
          "name the directory of the right data",
          data_dir,
          has,
          classes_of_model));
}

std::vector<std::string> numbered_classes(std::int64_t count) {
  std::vector<std::string> names;
  names.reserve(count);
  for (std::int64_t label = 0; label < count; ++label) {
    names.push_back(std::to_string(label));
  }
  return names;
}

}  // namespace ddprun
