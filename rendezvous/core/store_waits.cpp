#include "rendezvous/core/store_waits.hpp"

#include <algorithm>

namespace ddprun {

template <class T>
NameMap<T>::iterator StoreWaits::open(NameMap<T>& lines, std::string_view name) {
  const auto line = lines.find(name);
  if (line != lines.end()) return line;
  name_bytes_ += kNameBytes + name.size();
  return lines.emplace(std::string(name), T()).first;
}

template <class T>
void StoreWaits::close(NameMap<T>& lines, NameMap<T>::iterator line) {
  name_bytes_ -= kNameBytes + line->first.size();
  lines.erase(line);
}

void StoreWaits::wait_for(Link link, std::string_view name) {
  const auto line = open(lines_, name);
  Wait& wait = waits_[link];
  wait.link = link;
  const auto place =
      line->second.insert(line->second.end(), Place{.wait = &wait, .index = wait.missing.size()});
  wait.missing.push_back(Missing{.line = &*line, .place = place});
  ++registrations_;
}

void StoreWaits::arrive(Link link, std::string_view key, std::int64_t world_size) {
  const auto barrier = open(barriers_, key);
  Wait& wait = waits_[link];
  wait.link = link;
  wait.barrier = &*barrier;
  wait.arrival = barrier->second.emplace(world_size, link);
  ++registrations_;
}

void StoreWaits::drop(Link link) {
  const auto found = waits_.find(link);
  if (found == waits_.end()) return;
  const Wait& wait = found->second;
  for (const Missing& missing : wait.missing) {
    missing.line->second.erase(missing.place);
    if (missing.line->second.empty()) close(lines_, lines_.find(missing.line->first));
  }
  registrations_ -= wait.missing.size();
  if (wait.barrier != nullptr) {
    wait.barrier->second.erase(wait.arrival);
    if (wait.barrier->second.empty()) close(barriers_, barriers_.find(wait.barrier->first));
    --registrations_;
  }
  waits_.erase(found);
}

void StoreWaits::key_written(std::string_view key, std::vector<Link>& released) {
  const auto found = lines_.find(key);
  if (found == lines_.end()) return;
  const Line line = std::move(found->second);
  for (const Place& place : line) {
    forget_missing(place);
  }
  close(lines_, found);
  // Only now: a name may be listed twice in one WAIT, and a release drops places of other lines.
  const std::size_t before = released.size();
  for (const Place& place : line) {
    Wait& wait = *place.wait;
    if (wait.released || !lacks_nothing(wait)) continue;
    wait.released = true;
    released.push_back(wait.link);
  }
  drop_from(before, released);
}

void StoreWaits::counted(std::string_view key, std::int64_t count, std::vector<Link>& released) {
  const auto barrier = barriers_.find(key);
  if (barrier == barriers_.end()) return;
  const auto end = barrier->second.upper_bound(count);
  const std::size_t before = released.size();
  for (auto arrival = barrier->second.begin(); arrival != end; ++arrival) {
    released.push_back(arrival->second);
  }
  drop_from(before, released);
}

void StoreWaits::item_pushed(std::string_view name, std::vector<Link>& released) {
  const auto line = lines_.find(name);
  if (line == lines_.end()) return;
  const auto first = std::ranges::find_if(
      line->second, [this](const Place& place) { return lacks_nothing(*place.wait); });
  if (first == line->second.end()) return;
  const Link link = first->wait->link;
  released.push_back(link);
  drop(link);
}

void StoreWaits::drop_from(std::size_t first, const std::vector<Link>& links) {
  for (std::size_t i = first; i < links.size(); ++i) {
    drop(links[i]);
  }
}

// Takes a name off the list of a link; the last of the list moves into its place.
void StoreWaits::forget_missing(const Place& place) {
  std::vector<Missing>& missing = place.wait->missing;
  missing[place.index] = missing.back();
  missing[place.index].place->index = place.index;
  missing.pop_back();
  --registrations_;
}

// Stored keys are no longer in `missing`, so what remains there can only be a queue. Stops at the
// first one that is empty, which is nearly always the first.
bool StoreWaits::lacks_nothing(const Wait& wait) const {
  return std::ranges::all_of(
      wait.missing, [this](const Missing& missing) { return has_items_(missing.line->first); });
}

void StoreWaits::shrink() {
  lines_.rehash(0);
  waits_.rehash(0);
}

std::vector<Link> StoreWaits::links() const {
  std::vector<Link> links;
  links.reserve(waits_.size());
  for (const auto& [link, wait] : waits_) {
    links.push_back(link);
  }
  return links;
}

}  // namespace ddprun
