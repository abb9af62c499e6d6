#include "trainer/stop_agreement.hpp"

#include <string>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

constexpr char kHeard[] = "ddptrain/heard_notice";  // by so many ranks
constexpr char kStopAfter[] = "ddptrain/stop_after";

}  // namespace

StopAgreement::StopAgreement(const NoticeWatch* notice, ProcessGroup group)
    : notice_(notice), group_(std::move(group)) {}

bool StopAgreement::is_reached(std::int64_t step) {
  if (notice_ == nullptr || !notice_->has_come()) return false;
  const auto store = group_->getStore();
  const bool is_first = group_->getRank() == 0;
  const bool is_new = !std::exchange(has_said_, true);
  const std::int64_t heard = is_new || is_first ? store->add(kHeard, is_new ? 1 : 0) : 0;
  if (is_first && !stop_after_ && heard == group_->getSize()) {
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
