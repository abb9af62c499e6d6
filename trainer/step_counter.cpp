#include "trainer/step_counter.hpp"

#include "base/descriptor.hpp"
#include "base/environment.hpp"
#include "base/parse.hpp"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun {
namespace {

std::int64_t slot_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  constexpr std::int64_t kSecond = 1'000'000'000;
  return now.tv_sec * kSecond + now.tv_nsec;
}

/// As a whole, though the agent may be reading it.
void write(std::int64_t& into, std::int64_t value) {
  __atomic_store_n(&into, value, __ATOMIC_RELAXED);
}

}  // namespace

StepCounter StepCounter::open() {
  const Environment environment = current_environment();
  const auto path = environment.find(contract::kStepFile);
  const auto number = environment.find(contract::kStepSlot);
  if (path == environment.end() || number == environment.end()) return {};
  const auto slot = parse_int<std::size_t>(number->second);
  const Descriptor file = open_file(path->second.c_str(), O_RDWR | O_CLOEXEC);
  struct stat status {};
  if (!slot || !file || ::fstat(file.get(), &status) != 0) return {};
  const auto size = static_cast<std::size_t>(status.st_size);
  if (*slot >= size / sizeof(contract::StepSlot)) return {};
  void* const mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) return {};
  auto* const own = static_cast<contract::StepSlot*>(mapped) + *slot;
  write(own->pid, ::getpid());
  return {mapped, size, own};
}

StepCounter::~StepCounter() {
  if (mapped_ != nullptr) ::munmap(mapped_, size_);
}

StepCounter::StepCounter(StepCounter&& other) noexcept {
  *this = std::move(other);
}

StepCounter& StepCounter::operator=(StepCounter&& other) noexcept {
  std::swap(mapped_, other.mapped_);
  std::swap(size_, other.size_);
  std::swap(slot_, other.slot_);
  return *this;
}

void StepCounter::count(std::int64_t step) {
  if (slot_ == nullptr) return;
  const std::int64_t now = slot_now();
  const std::int64_t last = slot_->stepped_at;
  if (last != 0 && slot_->busy_until < last) {  // an announced pause is no slow step
    const std::int64_t gap = now - last;
    const std::int64_t mean = slot_->step_time;
    write(slot_->step_time, mean == 0 ? gap : mean + (gap - mean) / kMeanOver);
    longest_ = std::max(longest_, gap);
    write(slot_->slowest, std::max(longest_, longest_before_));
  }
  if (--left_ == 0) {
    left_ = kWindow;
    longest_before_ = std::exchange(longest_, 0);
  }
  write(slot_->steps, slot_->steps + 1);
  write(slot_->reported, 1 + step);
  write(slot_->stepped_at, now);
}

StepCounter::Pause StepCounter::busy(std::string_view what, Duration longest) {
  if (slot_ != nullptr) {
    const std::size_t size = std::min(what.size(), sizeof(slot_->busy_with) - 1);
    std::memcpy(slot_->busy_with, what.data(), size);
    slot_->busy_with[size] = '\0';
    write(slot_->busy_until, slot_now() + longest.count());
  }
  return Pause(slot_);
}

StepCounter::Pause::~Pause() {
  if (slot_ != nullptr) write(slot_->busy_until, slot_now());
}

}  // namespace ddprun
