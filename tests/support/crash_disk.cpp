#include "tests/support/crash_disk.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <fstream>

namespace ddprun {
namespace {

constexpr std::size_t kSectorBytes = 512;

bool toss(CrashDisk::Random& random) {
  return random() % 2 == 0;
}

std::string read_bytes(std::istream& stream, std::size_t size) {
  std::string bytes(size, '\0');
  stream.read(bytes.data(), static_cast<std::streamsize>(size));
  DDPRUN_CHECK(static_cast<std::size_t>(stream.gcount()) == size);
  return bytes;
}

}  // namespace

std::vector<FaultEvent> read_fault_log(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::vector<FaultEvent> events;
  FaultRecord record;
  while (stream.read(reinterpret_cast<char*>(&record), sizeof record)) {  // NOLINT
    FaultEvent event{.record = record, .name = {}, .data = {}};
    event.name = read_bytes(stream, record.name_bytes);
    event.data = read_bytes(stream, record.data_bytes);
    events.push_back(std::move(event));
  }
  return events;
}

CrashDisk::CrashDisk() {
  contents_.push_back(
      {.is_directory = true, .bytes = {}, .writes = {}, .entries = {}, .changes = {}});
}

void CrashDisk::apply(const FaultEvent& event) {
  const FaultRecord& record = event.record;
  switch (record.op) {
    case FaultOp::kMakeFile:
    case FaultOp::kMakeDirectory: {
      const Node parent = node_of(record.parent);
      const Node made = make(record, record.op == FaultOp::kMakeDirectory);
      content(parent).changes.push_back({.gone = {}, .here = std::pair(event.name, made)});
      break;
    }
    case FaultOp::kWrite:
      content(node_of(record.node)).writes.push_back({.offset = record.offset, .data = event.data});
      break;
    case FaultOp::kSync: {
      Content& synced = content(node_of(record.node));
      for (const Write& write : synced.writes) {
        put(write, synced.bytes);
      }
      for (const Change& change : synced.changes) {
        put(change, synced.entries);
      }
      synced.writes.clear();
      synced.changes.clear();
      break;
    }
    case FaultOp::kRename: {
      DDPRUN_CHECK(record.node == record.parent);  // the store renames within one directory
      const Node parent = node_of(record.parent);
      const Node moved = entry(parent, event.name);
      content(parent).changes.push_back({.gone = event.name, .here = std::pair(event.data, moved)});
      break;
    }
    case FaultOp::kRemove:
      content(node_of(record.parent)).changes.push_back({.gone = event.name, .here = {}});
      break;
    case FaultOp::kSaid:
      break;
  }
}

void CrashDisk::write_out(const std::filesystem::path& path, Random* random) const {
  write_out(Node{0}, path, random);
}

void CrashDisk::put(const Write& write, std::string& bytes) {
  bytes.resize(std::max(bytes.size(), write.offset + write.data.size()));
  bytes.replace(write.offset, write.data.size(), write.data);
}

void CrashDisk::put(const Change& change, std::map<std::string, Node>& entries) {
  if (change.gone) entries.erase(*change.gone);
  if (change.here) entries.insert_or_assign(change.here->first, change.here->second);
}

std::size_t CrashDisk::torn_at(std::size_t size, Random& random) {
  const std::size_t sectors = size / kSectorBytes;
  return sectors == 0 ? random() % (size + 1) : random() % (sectors + 1) * kSectorBytes;
}

CrashDisk::Node CrashDisk::node_of(std::uint64_t inode) const {
  const auto found = nodes_.find(inode);
  return found == nodes_.end() ? Node{0} : found->second;
}

CrashDisk::Node CrashDisk::make(const FaultRecord& record, bool is_directory) {
  contents_.push_back(
      {.is_directory = is_directory, .bytes = {}, .writes = {}, .entries = {}, .changes = {}});
  const Node made{contents_.size() - 1};
  nodes_.insert_or_assign(record.node, made);
  return made;
}

CrashDisk::Node CrashDisk::entry(Node directory, const std::string& name) const {
  const auto entries = entries_after_crash(content(directory), nullptr);
  const auto found = entries.find(name);
  DDPRUN_CHECK(found != entries.end());
  return found->second;
}

std::string CrashDisk::bytes_after_crash(const Content& file, Random* random) const {
  std::string bytes = file.bytes;
  for (const Write& write : file.writes) {
    if (random == nullptr || toss(*random)) {
      put(write, bytes);
    } else if (toss(*random)) {
      const std::size_t end = torn_at(write.data.size(), *random);
      put({.offset = write.offset, .data = write.data.substr(0, end)}, bytes);
    } else if (toss(*random)) {  // the size is there, the content is not
      put({.offset = write.offset, .data = std::string(write.data.size(), '\0')}, bytes);
    }
  }
  return bytes;
}

std::map<std::string, CrashDisk::Node> CrashDisk::entries_after_crash(
    const Content& directory, Random* random) const {
  auto entries = directory.entries;
  for (const Change& change : directory.changes) {
    if (random == nullptr || toss(*random)) put(change, entries);
  }
  return entries;
}

void CrashDisk::write_out(Node directory, const std::filesystem::path& path, Random* random) const {
  std::filesystem::create_directory(path);
  for (const auto& [name, node] : entries_after_crash(content(directory), random)) {
    if (content(node).is_directory) {
      write_out(node, path / name, random);
    } else {
      std::ofstream(path / name, std::ios::binary) << bytes_after_crash(content(node), random);
    }
  }
}

}  // namespace ddprun
