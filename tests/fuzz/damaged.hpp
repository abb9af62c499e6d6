#pragma once

// Inputs for a parser: those of a kept corpus, damaged at random. tests/fuzz/corpus has a directory
// for each kind, whose files are also the seeds of the libFuzzer targets. An input that once broke
// something is added to it.

#include "base/check.hpp"
#include "base/parse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::testing {

class Damaged {
 public:
  /// `kind`: a directory of the corpus, which is not empty. `pieces`: what the format is made of.
  Damaged(std::string_view kind, std::vector<std::string_view> pieces, std::uint64_t seed)
      : pieces_(std::move(pieces)), random_(seed) {
    std::vector<std::filesystem::path> paths;
    for (const auto& entry :
         std::filesystem::directory_iterator(fmt::format("{}/{}", DDPRUN_FUZZ_CORPUS, kind))) {
      paths.push_back(entry.path());
    }
    std::ranges::sort(paths);  // a seed means the same on every machine
    for (const auto& path : paths) {
      std::ifstream file(path, std::ios::binary);
      corpus_.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    DDPRUN_CHECK(!corpus_.empty());
  }

  /// Each file of the corpus as it is, then damaged ones.
  std::string next() {
    if (whole_ < corpus_.size()) return corpus_[whole_++];
    std::string text = corpus_[below(corpus_.size())];
    for (std::size_t i = 1 + below(4); i > 0; --i) {
      damage(text);
    }
    return text;
  }

  std::size_t below(std::size_t bound) { return random_() % bound; }

 private:
  void damage(std::string& text) {
    const std::size_t at = below(text.size() + 1);
    switch (below(6)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
        break;
      case 1:
        text.resize(at);
        break;
      case 2:
        text.insert(at, pieces_[below(pieces_.size())]);
        break;
      case 3:  // a piece of another one
        text.insert(at, corpus_[below(corpus_.size())].substr(0, below(60)));
        break;
      case 4:  // a piece many times
        for (std::size_t i = below(40), size = below(20); i > 0 && text.size() < kBytesMax; --i) {
          text.insert(at, text.substr(at, size));
        }
        break;
      default:
        text.erase(at, below(20));
        break;
    }
  }

  static constexpr std::size_t kBytesMax = 32'768;

  std::vector<std::string> corpus_;
  std::size_t whole_ = 0;  // how many of them were given as they are
  std::vector<std::string_view> pieces_;
  std::mt19937_64 random_;
};

/// Whether a run that has had `done` inputs goes on: until `count`, or for DDPRUN_FUZZ_SECONDS.
class Effort {
 public:
  explicit Effort(int count) : count_(count) {
    const char* const text = std::getenv("DDPRUN_FUZZ_SECONDS");
    if (text == nullptr) return;
    seconds_ = parse_int<int>(text);
    DDPRUN_CHECK(seconds_ && "DDPRUN_FUZZ_SECONDS is a number");
  }

  /// The same one each time, or a fresh one that is printed if there is time for it.
  std::uint64_t seed(std::uint64_t fixed) const {
    if (!seconds_) return fixed;
    const std::uint64_t fresh = std::random_device()();
    fmt::print("seed {}\n", fresh);
    return fresh;
  }

  bool goes_on() {
    if (!seconds_) return done_++ < count_;
    return std::chrono::steady_clock::now() < begin_ + std::chrono::seconds(*seconds_);
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  int count_;
  int done_ = 0;
  std::optional<int> seconds_;
};

}  // namespace ddprun::testing
