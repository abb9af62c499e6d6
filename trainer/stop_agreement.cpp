#include "trainer/stop_agreement.hpp"

#include <string>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

constexpr char kHeard[] = "ddptrain/heard_notice";  // by this many ranks
constexpr char kStopAfter[] = "ddptrain/stop_after";

}  // namespace

StopAgreement::StopAgreement(const NoticeWatch* notice, ProcessGroup group)
    : notice_(notice), group_(std::move(group)) {}

bool StopAgreement::have_all_heard() {
  if (notice_ == nullptr || !notice_->has_come()) return false;
  const std::int64_t new_here = std::exchange(has_said_, true) ? 0 : 1;
  return group_->getStore()->add(kHeard, new_here) == group_->getSize();
}

bool StopAgreement::is_reached(std::int64_t step) {
  if (notice_ == nullptr || !notice_->has_come()) return false;
  const auto store = group_->getStore();
  const bool decides = group_->getRank() == 0 && !stop_after_;
  // A rank that does not decide reports once, and queries no more.
  const bool all_have_heard = (decides || !has_said_) && have_all_heard();
  if (decides && all_have_heard) {
    stop_after_ = group_->getSize() == 1 ? step : step + 1;
    const std::string text = std::to_string(*stop_after_);
    store->set(kStopAfter, std::vector<std::uint8_t>(text.begin(), text.end()));
  }
  if (!stop_after_ && store->check({kStopAfter})) {
    const std::vector<std::uint8_t> text = store->get(kStopAfter);
    stop_after_ = std::stoll(std::string(text.begin(), text.end()));
  }
  return stop_after_ && step >= *stop_after_;
}

}  // namespace ddprun
