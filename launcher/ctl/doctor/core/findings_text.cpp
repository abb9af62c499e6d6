#include "launcher/ctl/doctor/core/diagnosis.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

using Json = nlohmann::ordered_json;

std::string printable(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char letter) { return letter < 0x20 || letter == 0x7f; }, '?');
  return text;
}

std::string_view mark_of(const Finding& finding) {
  if (finding.remedy.empty()) return "ok";
  return finding.is_warning ? "! " : "!!";
}

}  // namespace

std::string findings_text(const Findings& findings, std::string_view node) {
  std::string text;
  for (const Finding& finding : findings) {
    text += printable(fmt::format(
        "[{}] {}{}{}: {}{}{}",
        mark_of(finding),
        node,
        node.empty() ? "" : " ",
        finding.subject,
        finding.seen,
        finding.remedy.empty() ? "" : "; ",
        finding.remedy));
    text += '\n';
  }
  return text;
}

std::string findings_json(const Findings& findings, std::string_view node) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    list.push_back(
        {{"subject", finding.subject},
         {"is_well", finding.is_well()},
         {"is_warning", finding.is_warning},
         {"seen", finding.seen},
         {"remedy", finding.remedy}});
  }
  const Json report = {
      {"node", node},
      {"is_well", std::ranges::all_of(findings, &Finding::is_well)},
      {"findings", std::move(list)}};
  return report.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

Result<Findings> parse_findings(std::string_view json) {
  try {
    const Json report = Json::parse(json);
    Findings findings;
    for (const Json& entry : report.at("findings")) {
      findings.push_back(
          {.subject = entry.at("subject").get<std::string>(),
           .seen = entry.at("seen").get<std::string>(),
           .remedy = entry.at("remedy").get<std::string>(),
           .is_warning = entry.value("is_warning", false)});
    }
    return findings;
  } catch (const Json::exception& refused) {
    return make_error(Errc::kProtocol, fmt::format("invalid report: {}", refused.what()));
  }
}

}  // namespace ddprun
