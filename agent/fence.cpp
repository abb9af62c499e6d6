#include "agent/fence.hpp"

#include "agent/core/file_name.hpp"
#include "base/descriptor.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "base/parse.hpp"
#include "rendezvous/core/json_fields.hpp"

#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <random>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr mode_t kFenceMode = 0644;
constexpr std::size_t kFenceBytesMax = 4096;
constexpr auto kFencePatience = 5s;  // for the file system, before a warning that it hangs
constexpr Duration kPause = 1s;      // before a failed claim is repeated; doubles
constexpr Duration kPauseMax = 5s;

std::string hex(Incarnation incarnation) {
  return fmt::format("{:016x}", static_cast<std::uint64_t>(incarnation));
}

/// A file with a unique name, deleted with this object. Errors name only its directory.
class Aside {
 public:
  explicit Aside(fs::path path) : path_(std::move(path)) {}
  ~Aside() { ::unlink(path_.c_str()); }
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;

  /// Writes all of `content` to the disk.
  Result<void> write(std::string_view content) const {
    const Descriptor file =
        open_file(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kFenceMode);
    if (!file || !write_all(file.get(), content) || ::fsync(file.get()) != 0) return failure(errno);
    return {};
  }

  /// Links the file to the name `name` as well. Returns whether it has that name: false if `name`
  /// belongs to another file.
  ///
  /// The count of links decides, not what link() returns: if the reply of an NFS server is lost,
  /// the client repeats the request and reports EEXIST for the link that it has just made itself.
  Result<bool> link_to(const fs::path& name) const {
    const int error = ::link(path_.c_str(), name.c_str()) == 0 ? 0 : errno;
    // Opened again, because only then NFS asks the server for the present attributes.
    const Descriptor file = open_file(path_.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat about {};
    if (!file || ::fstat(file.get(), &about) != 0) return failure(errno);
    if (about.st_nlink == 2) return true;
    if (error == EEXIST) return false;
    if (error != 0) return failure(error);
    return make_error(
        Errc::kIo,
        fmt::format("{}: the file system does not count hard links", path_.parent_path().string()));
  }

 private:
  Error failure(int error) const { return make_errno_error(error, path_.parent_path().string()); }

  const fs::path path_;
};

/// The node whose incarnation the file contains.
Result<Incarnation> holder_in(const fs::path& file) {
  const auto content = read_file(file, kFenceBytesMax);
  if (!content) return content.error();
  const auto holder = wire::parse_id(trim(*content));
  if (holder) return Incarnation{*holder};
  return make_error(
      Errc::kIo, fmt::format("{}: does not hold the incarnation of a node", file.string()));
}

}  // namespace

Result<void> check_fence_directory(const fs::path& directory) {
  const Descriptor opened = open_file(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (!opened) return make_errno_error(errno, directory.string());
  std::random_device device;  // many nodes do this at the same time
  const fs::path name = directory / fmt::format(".ddprun-{:08x}{:08x}", device(), device());
  const Aside aside(name.string() + ".tmp");
  auto written = aside.write("\n");
  if (!written) return written;
  const auto linked = aside.link_to(name);
  ::unlink(name.c_str());
  if (!linked) return linked.error();
  return sync_directory(directory);
}

std::string fence_file_name(std::string_view job, const effects::ClaimFence& claim) {
  return fmt::format(
      "{}-{}-{}-{}.fence",
      as_file_name(job),
      hex(claim.instance),
      claim.round.term,
      claim.round.number);
}

Result<Incarnation> claim_fence(
    const fs::path& directory, std::string_view job, const effects::ClaimFence& claim) {
  static std::atomic<std::uint64_t> claims = 0;
  const fs::path file = directory / fence_file_name(job, claim);
  auto holder = holder_in(file);
  if (!holder && holder.error().is(Errc::kNotFound)) {
    const Aside aside(fmt::format("{}.{}-{}.tmp", file.string(), hex(claim.node), ++claims));
    auto const written = aside.write(hex(claim.node) + "\n");
    if (!written) return written.error();
    const auto linked = aside.link_to(file);
    if (!linked) return linked.error();
    holder = holder_in(file);
  }
  if (!holder) return holder;
  // Also syncs a file that was already there: its maker may have died before it did.
  auto const synced = sync_directory(directory);
  if (!synced) return synced.error();
  return holder;
}

struct Fence::Shared {
  Shared(fs::path where, std::string of) : directory(std::move(where)), job(std::move(of)) {}

  const fs::path directory;
  const std::string job;
  std::mutex mutex;  // for both below; only the agent's thread changes them
  asio::io_context* context = nullptr;
  Fence* fence = nullptr;  // null: destroyed
};

Result<std::unique_ptr<Fence>> Fence::open(
    asio::io_context& context, fs::path directory, std::string job, OnHeld on_held) {
  auto thread = WriterThread::start("cannot start a thread for the fence");
  if (!thread) return thread.error();
  return std::unique_ptr<Fence>(new Fence(
      context,
      std::make_shared<Shared>(std::move(directory), std::move(job)),
      *std::move(thread),
      std::move(on_held)));
}

Fence::Fence(
    asio::io_context& context,
    std::shared_ptr<Shared> shared,
    std::unique_ptr<WriterThread> thread,
    OnHeld on_held)
    : shared_(std::move(shared)),
      thread_(std::move(thread)),
      on_held_(std::move(on_held)),
      timer_(context, kNever),
      pause_(kPause) {
  const std::scoped_lock lock(shared_->mutex);
  shared_->context = &context;
  shared_->fence = this;
}

Fence::~Fence() {
  const std::scoped_lock lock(shared_->mutex);
  shared_->fence = nullptr;
}

void Fence::claim(const effects::ClaimFence& claim) {
  if (under_way_.contains(key_of(claim))) return;
  failed_.erase(key_of(claim));
  make(claim);
}

void Fence::make(const effects::ClaimFence& claim) {
  if (under_way_.empty()) timer_.expires_after(kFencePatience);
  under_way_.insert(key_of(claim));
  thread_->post([shared = shared_, claim] {
    auto holder = claim_fence(shared->directory, shared->job, claim);
    const std::scoped_lock lock(shared->mutex);
    if (shared->fence == nullptr) return;
    asio::post(*shared->context, [shared, claim, holder = std::move(holder)] {
      // On the agent's thread, the only one that destroys a fence.
      if (shared->fence != nullptr) shared->fence->answered(claim, holder);
    });
  });
}

void Fence::answered(const effects::ClaimFence& claim, const Result<Incarnation>& holder) {
  under_way_.erase(key_of(claim));
  if (!holder) failed_.insert_or_assign(key_of(claim), claim);
  if (under_way_.empty()) {
    timer_.expires_at(failed_.empty() ? kNever : Clock::now() + pause_);
  }
  if (holder) {
    reported_.clear();
    pause_ = kPause;
    return on_held_(claim, *holder);
  }
  // Once per reason, however often the claim is repeated.
  const std::string& why = holder.error().detail;
  if (std::exchange(reported_, why) == why) return;
  spdlog::warn(
      "cannot claim the fence: {}; this node does not lead without it, and tries again; check that "
      "the directory of --fence-dir exists and takes files",
      why);
}

asio::awaitable<void> Fence::watch() {
  for (;;) {
    const auto [re_armed] = co_await timer_.async_wait(kTuple);
    if (re_armed) continue;
    timer_.expires_at(kNever);
    if (!under_way_.empty()) {
      spdlog::warn(
          "the file system of --fence-dir has not answered for {} s: {}; this node does not lead "
          "until it does",
          kFencePatience.count(),
          shared_->directory.string());
      continue;
    }
    pause_ = std::min(2 * pause_, kPauseMax);
    for (const auto& [key, claim] : std::exchange(failed_, {}))
      make(claim);
  }
}

}  // namespace ddprun
