#pragma once

// The stack of a Python process as faulthandler writes it, and what its main thread does there.

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// A call of a Python function.
struct PythonFrame {
  std::string file;
  int line = 0;
  std::string function;

  /// Not of Python's library or an installed package.
  bool is_users() const;
  /// "train.py:31".
  std::string place() const;
  /// "load (train.py:14)"; of a module or a lambda, the place alone.
  std::string to_string() const;

  bool operator==(const PythonFrame&) const = default;
};

/// Of the main thread in the last dump of `text`, the innermost call first; empty: there is none.
std::vector<PythonFrame> main_thread_of(std::string_view text);

/// What a thread does, by its frames.
struct Activity {
  enum class Kind {
    kUnknown,     // there are no frames
    kCollective,  // waits for other ranks
    kData,        // waits for processes of a data loader, or reads a sample itself
    kElsewhere,
  };

  Kind kind = Kind::kUnknown;
  std::string what;   // kCollective: "all_reduce"; kElsewhere, kData: the innermost call
  std::string where;  // the innermost line of the user's that led there; empty: none

  /// "waits in all_reduce (train.py:31)", "is in load (train.py:14)".
  std::string to_string() const;

  bool operator==(const Activity&) const = default;
};

Activity activity_of(const std::vector<PythonFrame>& frames);

}  // namespace ddprun
