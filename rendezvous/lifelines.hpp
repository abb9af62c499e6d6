#pragma once

// The lifelines of one agent: its own, to its leader, and those that end here while it leads.
// core/lifeline_hello.hpp says what they are.
//
// Proof is only what the peer's kernel or its last byte says: an end, a reset, a goodbye. A line
// that times out, or whose network is gone, proves nothing: LifelineDropped, and no event at all
// for a line of our own. The end of our own line proves that our leader's node is dead only after
// kHeld was heard on it.
//
// A node that lives never closes a line of its own, nor an end on which it sent kHeld, nor lets its
// kernel give one up while the peer may still wait: the reset that it would get for a line unknown
// to that kernel would be taken for a death. So the lines to earlier leaders stay open.
//
// Runs on the thread of its io_context. Events are reported from there; LifelineOpened from within
// adopt() as well.
//
// An exception in the work for one line, such as std::bad_alloc, ends the watch on that line alone.
// It is closed, or stays open if the peer would take its end for our death. Either way nothing more
// is learned from it. An exception that the handler of events throws is a bug of ours, and ends the
// process.

#include "base/deadline.hpp"
#include "base/descriptor.hpp"
#include "base/endpoint.hpp"
#include "base/error.hpp"
#include "base/task_scope.hpp"
#include "rendezvous/core/lifeline_hello.hpp"
#include "rendezvous/core/link.hpp"
#include "rendezvous/framed_connection.hpp"

#include <boost/asio/io_context.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun {

struct LifelineLimits {
  std::size_t lines_max = 20'000;  // then the oldest without a hello makes way for another
  Duration handshake = std::chrono::seconds(10);  // from the connection to the hello
  // A kernel retransmits for so long what the peer does not confirm. A node that is cut off has to
  // have ended before; but the FIN of a killed process is retransmitted as long, and keeps its
  // socket, and the network namespace of a container that is gone.
  Duration unconfirmed = std::chrono::minutes(30);
};

class Lifelines {
 public:
  // What happened. `leadership` is the one that the line was opened to.
  struct LifelineOpened {  // to us, and held from now on
    Incarnation node{};
    Leadership leadership;
  };
  struct LifelineEnded {  // the last line of that node: none of its processes is left
    Incarnation node{};
    Leadership leadership;
  };
  struct LifelineDropped {  // as LifelineEnded, but its end proves nothing; or a line of that node
                            // is not watched any more
    Incarnation node{};
    Leadership leadership;
  };
  struct Goodbye {  // no process of our leader's node is left
    Leadership leadership;
  };
  using Event = std::variant<LifelineOpened, LifelineEnded, LifelineDropped, Goodbye>;

  /// Keeps lines open beyond this process, so that their end proves that all processes have ended.
  struct Holders {
    std::function<Result<void>(int line)> hold_line;  // our own; on failure it is not opened
    std::function<void(int end)> hold_end;            // another node's
    std::function<bool(int end)> holds_end;           // whether that has been done, for good
    std::function<void(int descriptor)> let_go;       // of either: it is about to be closed
  };

  struct Options {
    std::string job;
    AuthKey key;             // of this node; with a method, each line has to carry a proof
    bool trusts_end = true;  // the end of our own line says something, after kHeld
    LifelineLimits limits;
    Holders holders;
    std::function<void(const Event&)> on_event;
  };

  Lifelines(asio::io_context& context, Options options);

  ~Lifelines() = default;
  Lifelines(const Lifelines&) = delete;
  Lifelines& operator=(const Lifelines&) = delete;

  /// Watches until it is cancelled. Closes nothing: the destructor does, or the end of the process.
  /// REQUIRES: called once.
  asio::awaitable<void> serve();

  /// Opens the line of `node`, which we are, to `leader`, a numeric address. Once for each
  /// leadership: not again after it has ended, since workers that run by then would not hold it. A
  /// node that starts again under another incarnation has no workers, and opens one of its own. It
  /// is in lines() from here on, before its hello is sent. A failure is only logged. `leader_mac`
  /// proves under the leader's key; none if nodes prove nothing.
  void open_line(
      const Endpoint& leader, const Leadership& to, Incarnation node, Mac leader_mac = {});

  /// Our lines, for each worker that is started to hold.
  std::vector<int> lines();

  /// The ends for each worker that is started from here on to hold: those of the first kHeldEndsMax
  /// of `successors` that are held for good, and those of earlier calls. Sends kHeld on each.
  /// REQUIRES: no process of a worker runs.
  std::vector<int> hold_ends(std::span<const Incarnation> successors);

  /// Asks the kernel of the machine where `node` ran, on our lines to it and on its lines to us:
  /// one that knows nothing of them resets them, which is reported as their end. A node that lives
  /// ignores it.
  void probe(Incarnation node);

  /// Takes over a line that somebody opened to us, of which `received` has been read.
  void adopt(Descriptor socket, std::string received);

  /// The nodes whose lines end here, and the numeric address from which each of the lines comes.
  std::vector<std::pair<Incarnation, std::string>> callers();

  /// Lines that end here.
  std::size_t ends() const { return ends_.size(); }

 private:
  struct OwnLine {
    FramedConnection connection;
    LifelineHello hello;   // without its proof
    Mac mac;               // for the proof; none: nodes prove nothing
    bool is_open = false;  // connected, and the hello was sent: its end proves our death
    bool is_held = false;  // kHeld was heard
  };
  struct End {
    FramedConnection connection;
    std::string nonce;                   // for its proof; empty: nodes prove nothing
    std::optional<LifelineHello> hello;  // once it has come
    bool is_held = false;                // kHeld was sent
    bool is_spoiled = false;             // a byte came after which its end proves nothing
    bool makes_way = false;              // for others, unless its hello has come
  };

  // Each line is watched by one coroutine, which alone removes it.
  asio::awaitable<void> contain(Link link, asio::awaitable<void> watch);
  asio::awaitable<void> watch_own(Link link, Address leader);
  asio::awaitable<Result<void>> introduce(OwnLine& line);
  asio::awaitable<void> watch_end(Link link, std::string received);

  void abandon(Link link, const std::exception& thrown) noexcept;
  void abandon_own(Link link, const std::exception& thrown);
  void abandon_end(Link link, const std::exception& thrown);
  void report(const Event& event) noexcept;
  void close_own(Link link);
  void attend(Link link);
  void take(Link link, std::string_view bytes);
  Result<void> hear_hello(Link link, std::string_view& bytes);
  void end_line(Link link);
  bool has_room();
  void drop_end(Link link, std::string_view why);
  /// Yields the hello of the line that ended, if it was the last one of that node.
  std::optional<LifelineHello> forget(Link link);
  /// Yields its hello, if that has come.
  std::optional<LifelineHello> close_end(Link link);

  asio::any_io_executor executor_;
  Options options_;
  TaskScope watches_;

  std::map<Link, OwnLine> own_;  // by age
  std::map<Link, End> ends_;
  std::set<Link> strangers_;  // of ends_: without a hello so far; the oldest first
  std::map<Incarnation, std::size_t> lines_of_;
  std::pair<Leadership, Incarnation> newest_;  // the line opened last: to which, and whose
  std::uint64_t last_link_ = 0;
};

}  // namespace ddprun
