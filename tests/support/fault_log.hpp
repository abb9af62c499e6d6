#pragma once

// The log of a process that faulty_fs.cpp writes and crash_disk.cpp reads: every change to the
// files below one directory, in order, and the output of the process in between.

#include <cstdint>

namespace ddprun {

enum class FaultOp : std::uint32_t {
  kMakeFile = 1,   // node, parent, name
  kMakeDirectory,  // node, parent, name
  kWrite,          // node, offset, data
  kSync,           // node: a file or a directory
  kRename,         // parent, name; node is the parent of data, the new name
  kRemove,         // parent, name
  kSaid,           // data: a line on stdout
};

/// One record: this, then `name_bytes` of name, then `data_bytes` of data. Nodes are inode numbers,
/// which the file system reuses for new files after old ones are gone.
struct FaultRecord {
  FaultOp op{};
  std::uint32_t name_bytes = 0;
  std::uint64_t data_bytes = 0;
  std::uint64_t node = 0;
  std::uint64_t parent = 0;
  std::uint64_t offset = 0;
};

}  // namespace ddprun
