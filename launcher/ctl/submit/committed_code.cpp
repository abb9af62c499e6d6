#include "launcher/ctl/submit/committed_code.hpp"

#include "agent/run_program.hpp"
#include "base/file.hpp"
#include "base/parse.hpp"
#include "launcher/ctl/submit/scratch_directory.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <sys/stat.h>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kScriptBytesMax = 4UL << 20U;  // Slurm's own limit
constexpr std::size_t kGitOutputBytesMax = 64UL << 20U;

/// What git prints. Fails with kProtocol and the first line of its errors if its status is not 0.
Result<std::string> git(
    std::vector<std::string> arguments, const std::vector<std::string>& settings = {}) {
  arguments.insert(arguments.begin(), {"git", "--no-optional-locks"});
  auto ended = run_program(request_for(arguments, settings), kNever, kGitOutputBytesMax);
  if (!ended) return ended.error();
  if (ended->end.ok()) return std::move(ended->out);
  const std::string_view error = trim(ended->err);
  return make_error(
      Errc::kProtocol, fmt::format("git: {}", trim(error.substr(0, error.find('\n')))));
}

/// Runs git in the top directory of the work tree, to which its paths are relative.
Result<std::string> git_at(
    const fs::path& top,
    std::vector<std::string> arguments,
    const std::vector<std::string>& settings = {}) {
  arguments.insert(arguments.begin(), {"-C", top.string()});
  return git(std::move(arguments), settings);
}

/// Whether the commit contains `path`.
bool has(const Checkout& here, const std::string& path) {
  return git_at(here.top, {"cat-file", "-e", here.tree.commit + ':' + path}).has_value();
}

/// All except the directory itself, which must still be renamed.
Result<void> make_read_only(const fs::path& directory) {
  constexpr auto kWrite = fs::perms::owner_write | fs::perms::group_write | fs::perms::others_write;
  std::error_code error;
  for (fs::recursive_directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error)) {
    if (!at->is_symlink(error)) {
      fs::permissions(at->path(), kWrite, fs::perm_options::remove, error);
    }
    if (error) break;
  }
  if (error) return make_errno_error(error.value(), directory.string());
  return {};
}

/// Renames a complete directory to its place. If another submission was first, its directory is
/// used.
Result<void> put_in_place(const fs::path& made, const fs::path& place) {
  constexpr mode_t kReadOnly = 0555;
  if (::rename(made.c_str(), place.c_str()) != 0) {
    if (errno == EEXIST || errno == ENOTEMPTY) return {};
    return make_errno_error(errno, place.string());
  }
  if (::chmod(place.c_str(), kReadOnly) != 0) return make_errno_error(errno, place.string());
  return sync_directory(place.parent_path());
}

}  // namespace

Result<Checkout> find_checkout() {
  const auto places = git(
      {"rev-parse",
       "--path-format=absolute",
       "--show-toplevel",
       "--git-common-dir",
       "--show-prefix"});
  if (!places) return places.error();
  const auto lines = split(*places, '\n');
  if (lines.size() != 4) {
    return make_error(
        Errc::kProtocol, "git: a directory above this one has a line break in its name");
  }
  Checkout here{.top = lines[0], .git = lines[1], .folder = {}, .tree = {}};
  here.folder = lines[2].substr(0, lines[2].find_last_not_of('/') + 1);
  const auto status = git_at(
      here.top,
      {"status",
       "--porcelain=v2",
       "--branch",
       "-z",
       "--untracked-files=normal",
       "--ignore-submodules=none"});
  if (!status) return status.error();
  auto tree = parse_git_status(*status);
  if (!tree) return tree.error();
  here.tree = *std::move(tree);
  return here;
}

std::string why_not(const Checkout& here) {
  const WorkTree& tree = here.tree;
  if (tree.commit.empty()) return "no commit yet; run git commit first";
  if (!tree.changes.empty()) {
    return fmt::format(
        "files differ from commit {:.12}: {}; commit them, or add them to .gitignore",
        tree.commit,
        first_few(tree.changes));
  }
  if (has(here, ".gitmodules")) {
    return "the commit has submodules, whose files a job would not find; use sbatch itself";
  }
  if (!here.folder.empty() && !has(here, here.folder)) {
    return fmt::format(
        "the job would start in '{}', which is not in the commit; change to another directory",
        here.folder);
  }
  return {};
}

Result<std::string> read_script(const Checkout& here, const std::string& name) {
  std::error_code error;
  const fs::path found = fs::canonical(name, error);
  if (error) return make_errno_error(error.value(), name);
  const std::string inside = found.lexically_relative(here.top).string();
  if (!inside.starts_with("../")) {
    const std::string object = here.tree.commit + ':' + inside;
    // With the filters of a checkout.
    auto committed = git_at(here.top, {"cat-file", "--filters", object});
    if (committed) return committed;
  }
  return read_file(found, kScriptBytesMax);
}

Result<fs::path> unpack_commit(const Checkout& here, const fs::path& shelf) {
  std::error_code error;
  const fs::path kept = fs::absolute(shelf, error);
  fs::create_directories(kept, error);
  if (error) return make_errno_error(error.value(), kept.string());
  fs::path place = kept / here.tree.commit;
  if (fs::exists(place, error)) return place;

  const auto aside = ScratchDirectory::make(kept, fmt::format(".{:.12}.", here.tree.commit));
  if (!aside) return aside.error();
  // Not by git archive, which leaves out files as .gitattributes says.
  const fs::path made = aside->path() / "code";
  const std::string index = fmt::format("GIT_INDEX_FILE={}", (aside->path() / "index").string());
  if (::mkdir(made.c_str(), 0777) != 0) return make_errno_error(errno, made.string());
  const auto listed = git_at(here.top, {"read-tree", here.tree.commit}, {index});
  if (!listed) return listed.error();
  const auto unpacked =
      git_at(here.top, {"checkout-index", "--all", "--prefix=" + made.string() + '/'}, {index});
  if (!unpacked) return unpacked.error();
  if (const auto done = make_read_only(made); !done) return done.error();
  if (const auto done = sync_file_system(made); !done) return done.error();
  if (const auto done = put_in_place(made, place); !done) return done.error();
  return place;
}

}  // namespace ddprun
