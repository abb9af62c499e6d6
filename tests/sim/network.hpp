#pragma once

// A network of named troubles: delay, one-way and two-way partitions, hosts that are gone. What is
// sent over a connection arrives in order and once, however late, like TCP; what was cut off
// arrives when the cut is mended, unless one side has ended by then.

#include "tests/sim/world.hpp"

#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace ddprun::sim {

/// One direction of one connection.
class Pipe {
 public:
  using Parcel = std::function<void()>;

  Pipe(int from, int to) : from_(from), to_(to) {}

 private:
  friend class Network;
  int from_ = 0;
  int to_ = 0;
  std::deque<Parcel> parcels_;
  bool is_moving_ = false;  // the first parcel has a time of arrival
};

class Network {
 public:
  Network(World& world, int hosts) : world_(world), is_up_(static_cast<std::size_t>(hosts), true) {}

  /// What is still on its way holds on to its connection, and that to its pipes.
  ~Network() {
    for (const auto& pipe : pipes_) {
      if (const auto left = pipe.lock()) left->parcels_.clear();
    }
  }
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  std::shared_ptr<Pipe> pipe(int from, int to) {
    auto made = std::make_shared<Pipe>(from, to);
    pipes_.push_back(made);
    return made;
  }

  /// Delivers `parcel` behind all earlier ones.
  void send(const std::shared_ptr<Pipe>& pipe, Pipe::Parcel parcel) {
    pipe->parcels_.push_back(std::move(parcel));
    move(pipe);
  }

  void cut(int from, int to) { cuts_.insert({from, to}); }
  void mend(int from, int to) {
    cuts_.erase({from, to});
    wake();
  }
  void mend_all() {
    cuts_.clear();
    wake();
  }
  bool is_cut(int from, int to) const {
    return from != to && (cuts_.contains({from, to}) || !is_up(from) || !is_up(to));
  }
  bool has_cuts() const { return !cuts_.empty(); }
  bool is_up(int host) const { return is_up_[static_cast<std::size_t>(host)]; }
  void set_up(int host, bool up) {
    is_up_[static_cast<std::size_t>(host)] = up;
    if (up) wake();
  }

  Duration slowest = std::chrono::milliseconds(2);

 private:
  void move(const std::shared_ptr<Pipe>& pipe) {
    if (pipe->is_moving_ || pipe->parcels_.empty()) return;
    if (is_cut(pipe->from_, pipe->to_)) {
      stuck_.push_back(pipe);
      pipe->is_moving_ = true;
      return;
    }
    pipe->is_moving_ = true;
    const Duration delay = pipe->from_ == pipe->to_
                               ? Duration(1000)
                               : world_.between(std::chrono::microseconds(20), slowest);
    world_.in(delay, [this, pipe] { arrive(pipe); });
  }

  void arrive(const std::shared_ptr<Pipe>& pipe) {
    pipe->is_moving_ = false;
    if (is_cut(pipe->from_, pipe->to_)) return move(pipe);  // lost on the way, sent again later
    const Pipe::Parcel parcel = std::move(pipe->parcels_.front());
    pipe->parcels_.pop_front();
    parcel();
    move(pipe);
  }

  /// Retransmissions come in their own time.
  void wake() {
    for (const auto& pipe : std::exchange(stuck_, {})) {
      world_.in(
          world_.between(std::chrono::milliseconds(1), std::chrono::milliseconds(800)),
          [this, pipe] {
            pipe->is_moving_ = false;
            move(pipe);
          });
    }
  }

  World& world_;
  std::vector<bool> is_up_;
  std::set<std::pair<int, int>> cuts_;
  std::vector<std::shared_ptr<Pipe>> stuck_;
  std::vector<std::weak_ptr<Pipe>> pipes_;
};

}  // namespace ddprun::sim
