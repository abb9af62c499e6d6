#pragma once

// A disk that guarantees only what POSIX does: synced data survives a power failure; of unsynced
// data, any part may. Replays a log of faulty_fs.cpp and creates the directories that a crash
// between two operations may leave.

#include "tests/support/fault_log.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace ddprun {

struct FaultEvent {
  FaultRecord record;
  std::string name;
  std::string data;
};

/// The whole log at `path`.
std::vector<FaultEvent> read_fault_log(const std::filesystem::path& path);

class CrashDisk {
 public:
  using Random = std::mt19937_64;

  CrashDisk();

  void apply(const FaultEvent& event);

  /// Creates the directory `path`: everything durable, and of the rest what `random` selects.
  /// Without `random` all of it, as if there had been no crash.
  void write_out(const std::filesystem::path& path, Random* random) const;

 private:
  enum class Node : std::size_t {};

  struct Write {
    std::size_t offset = 0;
    std::string data;
  };
  struct Change {  // of a directory's entries
    std::optional<std::string> gone;
    std::optional<std::pair<std::string, Node>> here;
  };
  struct Content {
    bool is_directory = false;
    std::string bytes;                    // durable
    std::vector<Write> writes;            // not durable yet
    std::map<std::string, Node> entries;  // durable
    std::vector<Change> changes;          // not durable yet
  };

  static void put(const Write& write, std::string& bytes);
  static void put(const Change& change, std::map<std::string, Node>& entries);
  static std::size_t torn_at(std::size_t size, Random& random);

  Content& content(Node node) { return contents_[static_cast<std::size_t>(node)]; }
  const Content& content(Node node) const { return contents_[static_cast<std::size_t>(node)]; }
  Node node_of(std::uint64_t inode) const;
  Node make(const FaultRecord& record, bool is_directory);
  Node entry(Node directory, const std::string& name) const;
  std::string bytes_after_crash(const Content& file, Random* random) const;
  std::map<std::string, Node> entries_after_crash(const Content& directory, Random* random) const;
  void write_out(Node directory, const std::filesystem::path& path, Random* random) const;

  std::vector<Content> contents_;
  std::map<std::uint64_t, Node>
      nodes_;  // of the inodes in use; those not created here are the root
};

}  // namespace ddprun
