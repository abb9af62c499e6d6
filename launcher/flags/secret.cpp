#include "launcher/flags/secret.hpp"

#include "base/file.hpp"
#include "base/format_error.hpp"
#include "base/worker_contract.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

namespace ddprun {
namespace {

// A short secret protects nothing: anyone who sees the proof can try guesses offline.
constexpr std::size_t kBytesMin = 16;
constexpr std::size_t kBytesMax = 4096;

/// The message never contains the secret.
Result<std::string> checked(std::string secret, const std::string& source) {
  if (secret.size() >= kBytesMin && secret.size() <= kBytesMax) return secret;
  return invalid_argument(
      "{}: the secret has {} bytes, and needs {} to {}; make one with openssl rand -hex 32",
      source,
      secret.size(),
      kBytesMin,
      kBytesMax);
}

Result<std::string> from_file(const Given& file) {
  const std::string source = fmt::format("{} '{}'", file.source, file.text);
  // One more byte, for the final newline.
  auto content = read_file(file.text, kBytesMax + 1);
  if (!content) {
    return invalid_argument(
        "{}: {}; name a file with the secret of the job", file.source, content.error().detail);
  }
  std::error_code unknown;
  const auto mode = std::filesystem::status(file.text, unknown).permissions();
  if ((mode & std::filesystem::perms::others_read) != std::filesystem::perms::none) {
    return invalid_argument(
        "{}: every user of this machine can read it; run chmod o-r on the file, and make a new "
        "secret if others may have read this one",
        source);
  }
  if (content->ends_with('\n')) content->pop_back();
  return checked(*std::move(content), source);
}

std::optional<std::string> non_empty_variable(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  if (found == environment.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

}  // namespace

Result<std::string> find_secret(
    const std::optional<Given>& secret_file, const Environment& environment) {
  if (secret_file) return from_file(*secret_file);
  const auto file = non_empty_variable(environment, contract::kSecretFile);
  const auto secret = non_empty_variable(environment, contract::kSecret);
  if (file && secret) {
    return invalid_argument(
        "{} and {} are both set; unset one of them", contract::kSecret, contract::kSecretFile);
  }
  if (file) return from_file({.text = *file, .source = contract::kSecretFile});
  if (secret) return checked(*secret, contract::kSecret);
  return std::string();
}

Result<std::string> read_secret(const Options& options, const Environment& environment) {
  const AuthChoice choice = options.plan.rendezvous.auth;
  const bool is_wanted = choice == AuthChoice::kAuto || choice == AuthChoice::kSecret;
  const Given auth = options.auth.value_or(Given());
  if (!is_wanted && options.secret_file) {
    return invalid_argument(
        "{} '{}': the nodes would not use {}; leave out one of them",
        auth.source,
        auth.text,
        options.secret_file->source);
  }
  if (!is_wanted) return std::string();
  auto secret = find_secret(options.secret_file, environment);
  if (secret && secret->empty() && choice == AuthChoice::kSecret) {
    return invalid_argument(
        "{} '{}': no secret is given; give --secret-file or DDPRUN_SECRET_FILE",
        auth.source,
        auth.text);
  }
  return secret;
}

}  // namespace ddprun
