#pragma once

// The lifelines of one agent: its own, to its leader, and those that end here while it leads.
// core/lifeline_hello.hpp says what they are.
//
// Proof is only what the other side's kernel or its last words say: an end, a reset, a goodbye. A
// line that times out, or whose network is gone, proves nothing and is dropped in silence. The end
// of our own line proves that our leader's node is dead only after kHeld was heard on it.
//
// A node that lives never closes a line of its own, nor an end on which it said kHeld, nor lets its
// kernel give one up while the other side may still wait: the reset that it would get for a line
// unknown to that kernel would be taken for a death. So the lines to earlier leaders stay open.
//
// Runs on the thread of its io_context. Events are told from there; LifelineOpened from within
// adopt() as well.

#include "base/deadline.hpp"
#include "base/descriptor.hpp"
#include "base/endpoint.hpp"
#include "base/error.hpp"
#include "rendezvous/core/frame.hpp"
#include "rendezvous/core/lifeline_hello.hpp"
#include "rendezvous/socket_watch.hpp"

#include <boost/asio/io_context.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun {

struct LifelineLimits {
  std::size_t lines_max = 20'000;
  Duration handshake = std::chrono::seconds(10);  // of who opened one, to its hello
  // For so long a kernel sends again what the other side does not confirm. A node that is cut off
  // has to have ended before; but the FIN of a process that was killed is sent as long, and keeps
  // its socket, and the network namespace of a container that is no more.
  Duration unconfirmed = std::chrono::minutes(30);
};

class Lifelines {
 public:
  // What happened.
  struct LifelineOpened {  // to us, and held from now on
    Incarnation node{};
    Leadership leadership;  // that it was opened to
  };
  struct LifelineEnded {  // the last line of that node: nothing of it runs any more
    Incarnation node{};
    Leadership leadership;  // that it was opened to
  };
  struct Goodbye {  // nothing of our leader's node runs any more
    Leadership leadership;
  };
  using Event = std::variant<LifelineOpened, LifelineEnded, Goodbye>;

  /// Who keeps lines open beyond this process, so that they prove what they are to prove.
  struct Holders {
    std::function<Result<void>(int line)> hold_line;  // our own; on failure it is not opened
    std::function<void(int end)> hold_end;            // another node's
    std::function<bool(int end)> holds_end;           // whether that has been done, for good
    std::function<void(int descriptor)> let_go;       // of either: it is about to be closed
  };

  struct Options {
    std::string job;
    Mac mac;  // each line carries a proof of the job's secret; none: there is no secret
    bool trusts_end = true;  // the end of our own line says something, after kHeld
    LifelineLimits limits;
    Holders holders;
    std::function<void(const Event&)> on_event;
  };

  /// Fails with kIo if the kernel has no descriptor left.
  static Result<std::unique_ptr<Lifelines>> open(asio::io_context& context, Options options);

  ~Lifelines() = default;
  Lifelines(const Lifelines&) = delete;
  Lifelines& operator=(const Lifelines&) = delete;

  /// Watches until it is cancelled. Closes nothing: that is left to the end of this object, or of
  /// the process. REQUIRES: called once.
  asio::awaitable<void> serve();

  /// Opens the line of `node`, which we are, to `leader`, a numeric address. Once for each
  /// leadership: not again when it has ended, since workers that run by then would not hold it. A
  /// node that begins anew under another number has no workers, and opens one of its own. From here
  /// on it is in lines(), though it says whose it is a little later. Nobody is told of a line that
  /// cannot be opened.
  void open_line(const Endpoint& leader, const Leadership& to, Incarnation node);

  /// Our lines, for each worker that is started to hold.
  std::vector<int> lines() const;

  /// The ends for each worker that is started from here on to hold: those of the first kHeldEndsMax
  /// of `successors` that are held for good, beside those of earlier calls. Says kHeld on each.
  /// REQUIRES: no process of a worker runs.
  std::vector<int> hold_ends(std::span<const Incarnation> successors);

  /// Asks the kernel of the machine where `node` ran, on our lines to it and on its lines to us:
  /// one that knows nothing of them resets them, which is told as their end. A node that lives
  /// ignores it.
  void probe(Incarnation node);

  /// Takes over a line that somebody opened to us, of which `received` has been read.
  void adopt(Descriptor socket, std::string_view received);

  /// Lines that end here.
  std::size_t ends() const { return ends_.size(); }

 private:
  struct OwnLine {
    Leadership leadership;
    Descriptor socket;
    std::string hello;     // until it has been sent
    bool is_held = false;  // kHeld was heard
  };
  struct End {
    Descriptor socket;
    std::string opening;                 // while it is not whole
    FrameReader frames{8'192};           // of the hello
    std::optional<LifelineHello> hello;  // once it has come
    std::optional<TimePoint> deadline;   // for it
    bool is_held = false;                // kHeld was said
    bool is_spoiled = false;             // something was said that proves nothing of its end
  };

  Lifelines(asio::io_context& context, Options options, SocketWatch watch);

  void turn();
  void drop_overdue(TimePoint now);
  void attend_own(Link link);
  Result<void> say_hello(OwnLine& line);
  void close_own(Link link, std::string_view why);
  void let_go(int socket);
  void attend(Link link);
  Result<void> hear_hello(Link link, End& end, std::string_view& bytes);
  void take(Link link, std::string_view bytes);
  void spoil(Link link);
  void drop_end(Link link, std::string_view why);
  void end_line(Link link);
  void forget(Link link);

  asio::any_io_executor executor_;
  Options options_;
  SocketWatch watch_;

  std::map<Link, OwnLine> own_;  // by age
  std::map<Link, End> ends_;
  std::map<Incarnation, std::size_t> lines_of_;
  std::pair<Leadership, Incarnation> newest_;  // the line opened last: to whom, and whose
  std::uint64_t last_link_ = 0;
};

}  // namespace ddprun
