#pragma once

// Cuts a byte stream into whole lines, in bounded memory: so many workers can share a console.

#include "base/check.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun {

/// Holds back the last, unfinished line of one stream.
///
/// The pieces come in order and together are exactly the input bytes. Each is one or more whole
/// lines, ending in a newline. Only a line longer than the limit comes in parts; the last part ends
/// in the newline.
class LineSplitter {
 public:
  /// REQUIRES: line_bytes_max > 0. Never holds back more than that.
  explicit LineSplitter(std::size_t line_bytes_max) : line_bytes_max_(line_bytes_max) {
    DDPRUN_CHECK(line_bytes_max > 0);
  }

  /// Takes the next bytes and passes what is complete to `sink(std::string_view)`, in any number of
  /// calls. Most bytes are passed on without a copy.
  template <class Sink>
  void feed(std::string_view bytes, Sink&& sink) {
    const std::size_t end = bytes.rfind('\n');  // memrchr: one scan for a megabyte of lines
    if (end != std::string_view::npos) {
      std::string_view whole = bytes.substr(0, end + 1);
      if (!held_.empty()) {
        const std::size_t first = whole.find('\n') + 1;
        held_.append(whole.substr(0, first));
        sink(std::string_view(held_));
        held_.clear();
        whole.remove_prefix(first);
      }
      if (!whole.empty()) sink(whole);
      bytes.remove_prefix(end + 1);
    }
    hold(bytes, sink);
  }

  /// The stream has ended: passes on what is held back, if anything.
  template <class Sink>
  void finish(Sink&& sink) {
    if (!held_.empty()) sink(std::string_view(held_));
    held_.clear();
  }

  std::size_t held_bytes() const { return held_.size(); }

  /// Whether the unfinished line is overwritten like a progress bar: it contains a carriage return.
  bool holds_bar() const { return held_.find('\r') != std::string::npos; }

 private:
  template <class Sink>
  void hold(std::string_view rest, Sink& sink) {
    while (held_.size() + rest.size() > line_bytes_max_) {
      const std::size_t room = line_bytes_max_ - held_.size();
      held_.append(rest.substr(0, room));
      rest.remove_prefix(room);
      sink(std::string_view(held_));
      held_.clear();
    }
    held_.append(rest);
  }

  std::size_t line_bytes_max_;
  std::string held_;
};

}  // namespace ddprun
