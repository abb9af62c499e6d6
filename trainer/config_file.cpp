#include "trainer/config_file.hpp"

#include "base/file.hpp"
#include "trainer/core/bare_flags.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

namespace ddprun {
namespace {

constexpr std::size_t kConfigBytesMax = std::size_t{1} << 20U;
// An alias repeats a text, and a list the name of its flag.
constexpr std::size_t kFlagsBytesMax = 4 * kConfigBytesMax;
constexpr std::string_view kFlag = "--config";

Error refused(const std::string& path, const YAML::Mark& mark, std::string_view why) {
  return make_error(
      Errc::kInvalidArgument, fmt::format("{}: line {}: {}", path, mark.line + 1, why));
}

/// One entry of the file as flags, of at most `room` bytes, which it takes from there.
Result<std::vector<std::string>> flags_of(
    const std::string& path, const YAML::Node& key, const YAML::Node& value, std::size_t& room) {
  if (!key.IsScalar()) return refused(path, key.Mark(), "the name of a flag is not a text");
  const std::string flag = "--" + key.Scalar();
  if (flag.find('=') != std::string::npos) {
    return refused(path, key.Mark(), "the name of a flag has a '='; write 'flag: value'");
  }
  if (flag == kFlag) return refused(path, key.Mark(), "a configuration cannot include another");
  std::vector<std::string> flags;
  const auto add = [&](const YAML::Node& one) -> Result<void> {
    const std::string& text = one.Scalar();
    if (text.empty()) {
      return refused(path, one.Mark(), flag + " is empty; give a value, or leave the line out");
    }
    if (flag.size() + text.size() > room) {
      return refused(
          path, one.Mark(), fmt::format("its flags take more than {} bytes", kFlagsBytesMax));
    }
    room -= flag.size() + text.size();
    // Quoted text is always text.
    const bool is_plain = one.Tag() == "?";
    if (is_plain && text == "false") return {};
    flags.push_back(is_plain && text == "true" ? flag : flag + "=" + text);
    return {};
  };
  if (value.IsScalar()) {
    if (const auto added = add(value); !added) return added.error();
    return flags;
  }
  if (!value.IsSequence()) {
    return refused(path, value.Mark(), flag + " has neither a value nor a list of values");
  }
  for (const YAML::Node& one : value) {
    if (!one.IsScalar()) return refused(path, one.Mark(), flag + " has a list within its list");
    if (const auto added = add(one); !added) return added.error();
  }
  return flags;
}

Result<std::vector<std::string>> read_config(const std::string& path) {
  const auto text = read_file(path, kConfigBytesMax);
  if (!text) return with_context("--config", text.error());
  YAML::Node root;
  try {
    root = YAML::Load(*text);
  } catch (const YAML::Exception& error) {
    return refused(path, error.mark, error.msg);
  }
  if (!root.IsMap()) {
    const YAML::Mark at = root.IsNull() ? YAML::Mark() : root.Mark();
    return refused(path, at, "expected lines of 'flag: value'");
  }
  std::vector<std::string> flags;
  std::size_t room = kFlagsBytesMax;
  for (const auto& entry : root) {
    auto more = flags_of(path, entry.first, entry.second, room);
    if (!more) return more.error();
    std::ranges::move(*more, std::back_inserter(flags));
  }
  return flags;
}

/// Replaces underscores in a flag's name by hyphens; leaves other arguments unchanged.
std::string as_flag(std::string argument) {
  if (!argument.starts_with("--")) return argument;
  const std::size_t end = std::min(argument.find('='), argument.size());
  std::replace(argument.begin(), argument.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
  return argument;
}

}  // namespace

Result<std::vector<std::string>> with_config(const std::vector<std::string>& arguments) {
  std::vector<std::string> from_files;
  std::vector<std::string> given;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    std::string path;
    if (argument == kFlag) {
      if (++i == arguments.size()) {
        return make_error(Errc::kInvalidArgument, "--config needs a file");
      }
      path = arguments[i];
    } else if (argument.starts_with(std::string(kFlag) + "=")) {
      path = argument.substr(kFlag.size() + 1);
    } else {
      given.push_back(as_flag(argument));
      continue;
    }
    auto flags = read_config(path);
    if (!flags) return flags.error();
    std::ranges::transform(*flags, std::back_inserter(from_files), as_flag);
  }
  std::ranges::move(given, std::back_inserter(from_files));
  return complete_bare_flags(from_files);
}

}  // namespace ddprun
