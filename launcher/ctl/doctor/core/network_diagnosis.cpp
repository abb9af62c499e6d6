#include "launcher/ctl/doctor/core/network_diagnosis.hpp"

#include "base/nearest.hpp"
#include "base/parse.hpp"
#include "slurm/core/hostlist.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace ddprun {
namespace {

constexpr double kApartMaxS = 1.0;
constexpr std::string_view kGreeting = "ddprun-doctor-1";
// Until the year 2116; the difference of two such times fits.
constexpr std::int64_t kClockMaxNs = std::int64_t{1} << 62U;

std::string_view name_of(NamedBy by) {
  switch (by) {
    case NamedBy::kFlag:
      return "--interface";
    case NamedBy::kGloo:
      return "GLOO_SOCKET_IFNAME";
    case NamedBy::kNccl:
      return "NCCL_SOCKET_IFNAME";
  }
  return "";
}

std::vector<std::string> names_of(std::span<const Interface> interfaces) {
  std::vector<std::string> names;
  names.reserve(interfaces.size());
  for (const Interface& interface : interfaces) {
    names.push_back(interface.name);
  }
  return names;
}

bool is_usable(const Interface& interface) {
  return interface.is_up && interface.has_carrier && !interface.addresses.empty();
}

std::string shown(const Interface& interface) {
  return fmt::format("{} ({})", interface.name, fmt::join(interface.addresses, ", "));
}

std::string shown(const std::vector<Interface>& interfaces) {
  std::vector<std::string> texts;
  texts.reserve(interfaces.size());
  for (const Interface& interface : interfaces) {
    texts.push_back(shown(interface));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// Puts cause and remedy into `finding` if something is wrong with an interface given by its exact
/// name, else its description.
void judge_named(const std::string& name, std::span<const Interface> interfaces, Finding& finding) {
  const auto found = std::ranges::find(interfaces, name, &Interface::name);
  if (found == interfaces.end()) {
    const auto names = names_of(interfaces);
    const auto meant = nearest(name, names);
    finding.seen =
        fmt::format("no interface '{}' on this machine, only {}", name, fmt::join(names, ", "));
    finding.remedy = meant ? fmt::format("did you mean {}?", *meant) : "give one of these";
  } else if (!found->is_up) {
    finding.seen = fmt::format("{} is down", name);
    finding.remedy = fmt::format("ip link set {} up, or give another one", name);
  } else if (!found->has_carrier) {
    finding.seen = fmt::format("{} has no carrier", name);
    finding.remedy = "check its cable and switch, or give another one";
  } else if (found->addresses.empty()) {
    finding.seen = fmt::format("{} has no address that other machines can use", name);
    finding.remedy = "give it an address, or choose another interface";
  } else {
    finding.seen += (finding.seen.empty() ? "" : ", ") + shown(*found);
  }
}

/// Whether NCCL would use it for `list`.
bool is_named(const Interface& interface, std::string_view list) {
  const bool is_negated = list.starts_with('^');
  if (is_negated) list.remove_prefix(1);
  const bool is_exact = list.starts_with('=');
  if (is_exact) list.remove_prefix(1);
  const auto pieces = split(list, ',');
  const bool is_listed = std::ranges::any_of(pieces, [&](std::string_view piece) {
    return is_exact ? interface.name == piece : interface.name.starts_with(piece);
  });
  return is_listed != is_negated;
}

/// The fact about a node without a problem.
std::string how_connected(const NodeConnectivity& result, std::uint16_t port) {
  std::string seen =
      fmt::format("connected{} on TCP port {}", result.was_heard ? " both ways" : "", port);
  if (result.job) seen += fmt::format(", where {} is running", name_of_job(*result.job));
  if (!result.was_heard)
    seen += "; whether it reaches this node was not checked, because a job has the port here";
  return seen;
}

/// Fact or cause, and remedy for one node; no remedy: no problem.
std::pair<std::string, std::string> seen_and_remedy(
    const NodeConnectivity& result, std::uint16_t port) {
  const std::string leave_out = "or exclude it (--exclude)";
  if (!result.error && (result.was_heard || !result.can_be_heard)) {
    return {how_connected(result, port), ""};
  }
  if (!result.error) {
    return {
        "this node reached it, but it did not reach this node",
        fmt::format(
            "check {}its firewall, its routes and how it resolves this node's name, for TCP port "
            "{}, {}",
            result.job ? "that ddpctl runs there, " : "",
            port,
            leave_out)};
  }
  const std::string why = result.error->detail.substr(0, result.error->detail.rfind("; "));
  const std::string seen =
      fmt::format("{}{}", why, result.was_heard ? ", though it reached this node" : "");
  if (result.error->is(Errc::kInvalidArgument)) {
    return {seen, "add the name to this node's /etc/hosts or DNS, " + leave_out};
  }
  if (result.error->is(Errc::kProtocol)) {
    return {
        seen, fmt::format("stop the program that listens there, or choose another port (--port)")};
  }
  return {
      seen,
      fmt::format(
          "check that ddpctl runs there, which interface leads there, and that no firewall blocks "
          "TCP port {}, {}",
          port,
          leave_out)};
}

Finding judge_clocks(std::span<const NodeConnectivity> results) {
  std::vector<std::string> nodes;
  std::vector<std::string> wrong;
  double largest_s = 0;
  for (const NodeConnectivity& result : results) {
    if (result.error || result.job) continue;
    nodes.push_back(result.node);
    const double ahead_s = to_seconds(result.ahead);
    const double apart_s = std::abs(ahead_s);
    largest_s = std::max(largest_s, apart_s);
    if (apart_s - to_seconds(result.doubt) <= kApartMaxS) continue;
    wrong.push_back(fmt::format(
        "that of {} is {:.1f} s {}", result.node, apart_s, ahead_s > 0 ? "ahead" : "behind"));
  }
  Finding finding{.subject = "", .seen = "", .remedy = ""};
  if (nodes.empty()) return finding;
  finding.subject = fmt::format("clock of {}", fold_hostlist(nodes));
  finding.seen = fmt::format("at most {:.3f} s from this node's", largest_s);
  if (!wrong.empty()) {
    constexpr std::size_t kShownMax = 4;
    const std::size_t shown = std::min(wrong.size(), kShownMax);
    finding.seen = fmt::format(
        "{}{}",
        fmt::join(std::span(wrong).first(shown), ", "),
        wrong.size() > shown ? fmt::format(" and {} others", wrong.size() - shown) : "");
    finding.remedy = "run chronyd, ntpd or systemd-timesyncd on each of them";
  }
  return finding;
}

}  // namespace

Finding judge_interface(
    NamedBy by, const std::string& named, std::span<const Interface> interfaces) {
  Finding finding{
      .subject = fmt::format("interface {} {}", name_of(by), named), .seen = "", .remedy = ""};
  if (by != NamedBy::kNccl) {
    for (const std::string_view piece : split(named, ',')) {
      if (finding.is_well()) judge_named(std::string(trim(piece)), interfaces, finding);
    }
    return finding;
  }
  std::vector<Interface> fit;
  for (const Interface& interface : interfaces) {
    if (is_usable(interface) && is_named(interface, named)) fit.push_back(interface);
  }
  finding.seen = shown(fit);
  if (fit.empty()) {
    finding.seen = fmt::format(
        "matches none of {} that is up and has an address", fmt::join(names_of(interfaces), ", "));
    finding.remedy = "give one of these, or unset it";
  }
  return finding;
}

Finding judge_route(
    std::span<const Interface> interfaces, const std::string& chosen, bool has_others) {
  Finding finding{.subject = "interface", .seen = "", .remedy = ""};
  std::vector<Interface> usable;
  for (const Interface& interface : interfaces) {
    if (is_usable(interface) && !interface.is_loopback) usable.push_back(interface);
  }
  finding.seen = shown(usable);
  if (usable.empty()) {
    finding.seen = "only the loopback interface is up";
    if (has_others) {
      finding.remedy =
          "set up an interface that leads to the other nodes, or exclude this node (--exclude)";
    }
  } else if (chosen.empty()) {
    finding.seen += "; no route leads to other machines";
    if (has_others) finding.remedy = "add routes, or exclude this node (--exclude)";
  } else if (usable.size() > 1) {
    const auto leaves = std::ranges::find_if(usable, [&chosen](const Interface& interface) {
      return std::ranges::find(interface.addresses, chosen) != interface.addresses.end();
    });
    const std::string by = leaves == usable.end() ? chosen : leaves->name;
    finding.seen += fmt::format("; {} is used unless --local-addr names another", by);
  }
  return finding;
}

Finding judge_host_name(
    const std::string& name, const Result<std::vector<std::string>>& addresses, Others others) {
  Finding finding{.subject = "name " + name, .seen = "", .remedy = ""};
  finding.is_warning = others == Others::kNotKnown;
  constexpr char kRemedy[] =
      "set GLOO_SOCKET_IFNAME to the interface that leads to the other nodes, or add this node's "
      "name to DNS or /etc/hosts";
  if (!addresses) {
    finding.seen = addresses.error().detail;
    if (others != Others::kNo) finding.remedy = kRemedy;
    return finding;
  }
  finding.seen = fmt::format("{}", fmt::join(*addresses, ", "));
  const bool is_loopback = std::ranges::all_of(*addresses, [](const std::string& address) {
    return address.starts_with("127.") || address == "::1";
  });
  if (is_loopback && others != Others::kNo) {
    finding.seen +=
        ", the loopback address: other nodes that get this address would connect to themselves";
    finding.remedy = kRemedy;
  }
  return finding;
}

Findings judge_connectivity(std::span<const NodeConnectivity> results, std::uint16_t port) {
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> nodes_by_diagnosis;
  for (const NodeConnectivity& result : results) {
    auto [seen, remedy] = seen_and_remedy(result, port);
    nodes_by_diagnosis[{std::move(remedy), std::move(seen)}].push_back(result.node);
  }
  Findings findings;
  for (const auto& [diagnosis, nodes] : nodes_by_diagnosis) {  // those without a remedy first
    findings.push_back(
        {.subject = "reach " + fold_hostlist(nodes),
         .seen = diagnosis.second,
         .remedy = diagnosis.first});
  }
  if (Finding clocks = judge_clocks(results); !clocks.subject.empty()) {
    findings.push_back(std::move(clocks));
  }
  return findings;
}

std::string Greeting::to_line() const {
  return fmt::format("{} {} {} {}\n", kGreeting, step, node_id, clock_ns);
}

Result<Greeting> Greeting::parse(std::string_view line) {
  const auto fields = split(trim(line), ' ');
  const bool is_ours = line.ends_with('\n') && fields.size() == 4 && fields[0] == kGreeting;
  const auto node = is_ours ? parse_int<std::size_t>(fields[2]) : std::nullopt;
  const auto clock = is_ours ? parse_int<std::int64_t>(fields[3]) : std::nullopt;
  if (!node || *node >= kHostsMax || !clock || *clock < 0 || *clock > kClockMaxNs) {
    return make_error(Errc::kProtocol, "another program than ddpctl doctor listens there");
  }
  return Greeting{.step = std::string(fields[1]), .node_id = *node, .clock_ns = *clock};
}

}  // namespace ddprun
