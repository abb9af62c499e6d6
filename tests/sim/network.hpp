#pragma once

// A network with faults: delay, one-way and two-way partitions, hosts that are gone. What is sent
// over a connection arrives in order and once, however late, like TCP, and any number of messages
// may be on their way at a time. What was cut off arrives when the cut is healed, unless one side
// has ended by then.

#include "tests/sim/world.hpp"

#include <algorithm>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace ddprun::sim {

/// One direction of one connection. The network owns it: what is planned may refer to it to the
/// end.
class Pipe {
 public:
  using Parcel = std::function<void()>;

  Pipe(int from, int to) : from_(from), to_(to) {}

 private:
  friend class Network;
  int from_ = 0;
  int to_ = 0;
  std::list<std::pair<TimePoint, Parcel>> parcels_;  // by time of arrival
  bool is_moving_ = false;                           // the first parcel has a time of arrival
};

class Network {
 public:
  Network(World& world, int hosts)
      : world_(world),
        is_up_(static_cast<std::size_t>(hosts), true),
        up_since_(static_cast<std::size_t>(hosts)) {}

  ~Network() = default;
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  Pipe& pipe(int from, int to) { return pipes_.emplace_back(from, to); }

  /// Delivers `parcel` after all earlier ones.
  void send(Pipe& pipe, Pipe::Parcel parcel) {
    const Duration delay = pipe.from_ == pipe.to_
                               ? Duration(1000)
                               : world_.between(std::chrono::microseconds(20), slowest);
    TimePoint due = world_.now() + delay;
    if (!pipe.parcels_.empty()) due = std::max(due, pipe.parcels_.back().first);
    pipe.parcels_.emplace_back(due, std::move(parcel));
    move(pipe);
  }

  void cut(int from, int to) { cuts_.insert({from, to}); }
  void mend(int from, int to) {
    if (cuts_.erase({from, to}) != 0) mended_[{from, to}] = world_.now();
    wake();
  }
  void mend_all() {
    for (const auto& cut : std::exchange(cuts_, {}))
      mended_[cut] = world_.now();
    wake();
  }
  /// Since when both ways between these hosts have been whole; `now` if they are not.
  TimePoint whole_since(int a, int b) const {
    if (is_cut(a, b) || is_cut(b, a)) return world_.now();
    const auto since = [this](int from, int to) {
      const auto found = mended_.find({from, to});
      return found == mended_.end() ? TimePoint() : found->second;
    };
    const auto up_since = [this](int host) { return up_since_[static_cast<std::size_t>(host)]; };
    return std::max({since(a, b), since(b, a), up_since(a), up_since(b)});
  }
  bool is_cut(int from, int to) const {
    return from != to && (cuts_.contains({from, to}) || !is_up(from) || !is_up(to));
  }
  bool has_cuts() const { return !cuts_.empty(); }
  bool is_up(int host) const { return is_up_[static_cast<std::size_t>(host)]; }
  void set_up(int host, bool up) {
    is_up_[static_cast<std::size_t>(host)] = up;
    if (!up) return forget(host);
    up_since_[static_cast<std::size_t>(host)] = world_.now();
    wake();
  }

  Duration slowest = std::chrono::milliseconds(2);

 private:
  /// A machine that lost power sends nothing again, not even once it is up.
  void forget(int host) {
    for (Pipe& pipe : pipes_) {
      if (pipe.from_ == host) pipe.parcels_.clear();
    }
  }

  void move(Pipe& pipe) {
    if (pipe.is_moving_ || pipe.parcels_.empty()) return;
    pipe.is_moving_ = true;
    if (is_cut(pipe.from_, pipe.to_)) return stuck_.push_back(&pipe);
    const TimePoint due = std::max(world_.now(), pipe.parcels_.front().first);
    world_.at(due, [this, &pipe] { arrive(pipe); });
  }

  void arrive(Pipe& pipe) {
    pipe.is_moving_ = false;
    if (pipe.parcels_.empty()) return;                    // forgotten
    if (is_cut(pipe.from_, pipe.to_)) return move(pipe);  // lost on the way, sent again later
    const Pipe::Parcel parcel = std::move(pipe.parcels_.front().second);
    pipe.parcels_.pop_front();
    parcel();
    move(pipe);
  }

  /// Retransmissions arrive in their own time.
  void wake() {
    for (Pipe* const pipe : std::exchange(stuck_, {})) {
      world_.in(
          world_.between(std::chrono::milliseconds(1), std::chrono::milliseconds(800)),
          [this, pipe] {
            pipe->is_moving_ = false;
            move(*pipe);
          });
    }
  }

  World& world_;
  std::vector<bool> is_up_;
  std::vector<TimePoint> up_since_;
  std::set<std::pair<int, int>> cuts_;
  std::map<std::pair<int, int>, TimePoint> mended_;
  std::vector<Pipe*> stuck_;
  std::deque<Pipe> pipes_;  // which stay where they are
};

}  // namespace ddprun::sim
