#include "launcher/ctl/submit/core/work_tree.hpp"

#include "base/check.hpp"
#include "base/parse.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <span>
#include <utility>

namespace ddprun {
namespace {

constexpr std::string_view kCommit = "# branch.oid ";
constexpr std::string_view kNone = "(initial)";
constexpr std::size_t kFilesShown = 5;

/// The number of fields before the path of an entry, by its first letter; 0: it has no path.
std::size_t fields_before_path(char kind) {
  switch (kind) {
    case '?':
      return 1;
    case '1':
      return 8;
    case '2':
      return 9;
    case 'u':
      return 10;
    default:
      return 0;
  }
}

std::string_view behind_fields(std::string_view entry, std::size_t fields) {
  for (; fields > 0; --fields) {
    entry.remove_prefix(std::min(entry.find(' '), entry.size() - 1) + 1);
  }
  return entry;
}

bool is_commit(std::string_view text) {
  return (text.size() == 40 || text.size() == 64) &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

Result<WorkTree> parse_git_status(std::string_view text) {
  WorkTree tree;
  bool has_commit_line = false;
  bool is_old_name = false;
  for (const std::string_view entry : split(text, '\0')) {
    if (std::exchange(is_old_name, false) || entry.empty()) continue;
    if (entry.starts_with(kCommit)) {
      const std::string_view commit = entry.substr(kCommit.size());
      has_commit_line = commit == kNone || is_commit(commit);
      if (is_commit(commit)) tree.commit = commit;
    }
    const std::size_t fields = fields_before_path(entry.front());
    if (fields == 0) continue;
    const std::string_view path = behind_fields(entry, fields);
    if (path.empty()) return make_error(Errc::kProtocol, "git status: an entry without a path");
    tree.changes.emplace_back(path);
    is_old_name = entry.front() == '2';  // a rename: its old name is the next entry
  }
  if (!has_commit_line) return make_error(Errc::kProtocol, "git status: no line with a commit");
  return tree;
}

std::string first_few(const std::vector<std::string>& paths) {
  DDPRUN_CHECK(!paths.empty());
  const auto shown = std::span(paths).first(std::min(paths.size(), kFilesShown));
  std::string names = fmt::format("{}", fmt::join(shown, ", "));
  // A name may contain any byte but NUL; the message must stay one line.
  std::ranges::replace_if(
      names, [](unsigned char byte) { return std::iscntrl(byte) != 0; }, '?');
  const std::size_t left_out = paths.size() - shown.size();
  return left_out == 0 ? names : fmt::format("{} and {} more", names, left_out);
}

}  // namespace ddprun
