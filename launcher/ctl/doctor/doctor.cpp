// What is probed, in which order, and the remedy if a probe does not answer. core/*diagnosis.cpp
// judges the results; machine.cpp probes this machine.

#include "launcher/ctl/doctor/doctor.hpp"

#include "base/descriptor.hpp"
#include "base/environment.hpp"
#include "base/standard_streams.hpp"
#include "launcher/ctl/doctor/connectivity.hpp"
#include "launcher/ctl/doctor/machine.hpp"
#include "launcher/ctl/doctor/probe.hpp"
#include "rendezvous/address.hpp"
#include "rendezvous/blocking_socket.hpp"
#include "rendezvous/listener.hpp"
#include "rendezvous/own_address.hpp"
#include "rendezvous/port_owner.hpp"
#include "rendezvous/status_client.hpp"
#include "slurm/core/allocation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

namespace ddprun {
namespace {

constexpr char kTryAgain[] = "try again, and check the load of this machine";
constexpr char kNameService[] = "check the name service (/etc/resolv.conf) of this machine";
constexpr char kDeadDisk[] =
    "the disk does not respond: check its server, or exclude this node (--exclude)";
// Reserved for documentation (RFC 5737): stands for any address outside this machine.
constexpr char kAnywhere[] = "192.0.2.1";

std::string check_of(const Finding& finding) {
  return finding.subject.substr(0, finding.subject.find(' '));
}

Duration seconds(double number) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(number));
}

/// The source address of packets to `host`, found without sending one; empty: no route leads
/// there.
std::string source_towards(const std::string& host) {
  constexpr std::uint16_t kPort = 9;  // any port: connecting a UDP socket sends nothing
  const auto addresses = look_up({.host = host, .port = kPort});
  if (!addresses) return {};
  return source_address(*addresses);
}

/// The numeric addresses of a host. Fails with kInvalidArgument if it has none.
Result<std::vector<std::string>> addresses_of(const std::string& host) {
  const auto addresses = look_up({.host = host, .port = 0});
  if (!addresses) return addresses.error();
  std::vector<std::string> texts;
  for (const Address& address : *addresses) {
    const std::string text = host_of(address);
    if (std::ranges::find(texts, text) == texts.end()) texts.push_back(text);
  }
  return texts;
}

/// Which program, and which job, has the port on which this process may not listen. Takes up to
/// `limit`.
Port taken_port(std::uint16_t number, const Error& error, Duration limit) {
  const TimePoint deadline = Clock::now() + limit;
  Port port{.number = number, .error = error, .owner = ""};
  const auto owner = owner_of(number, std::min(kOwnerPatience, limit / 2));
  if (!owner) return port;
  port.owner = owner->to_string();
  // Another program may be asked in vain until the limit.
  const bool may_be_ddprun = owner->program.empty() || owner->program.starts_with("ddprun");
  for (const Endpoint& endpoint : may_be_ddprun ? owner->listens : std::vector<Endpoint>()) {
    const auto job = job_at(endpoint, deadline);
    if (!job) continue;
    port.job = *job;
    if (owner->pid == 0) port.owner.clear();  // the job says more
    break;
  }
  return port;
}

class Examination {
 public:
  Examination(const DoctorOptions& options, std::map<std::string, std::string> environment)
      : options_(options), environment_(std::move(environment)), limit_(seconds(options.limit_s)) {
    auto allocation = find_allocation(environment_);
    if (allocation) step_ = *std::move(allocation);  // else the probe of Slurm reports why
    port_ = options_.port;
    if (port_ == 0 && step_) port_ = step_->ports().front();
  }

  Findings run() {
    add("slurm", kTryAgain, [this] { return judge_slurm(environment_); });
    add_network();
    add("clock", kTryAgain, [] { return Findings{judge_clock(probe_clock())}; });
    add_disks();
    for (const std::string& path : options_.data) {
      add("data " + path, kDeadDisk, [path] { return Findings{judge_data(probe_data(path))}; });
    }
    add("gpus", kTryAgain, [this] { return Findings{judge_gpus(probe_gpus(environment_))}; });
    add("python", kDeadDisk, [this] {
      // A little less, as below.
      return Findings{judge_python(probe_python(environment_, Clock::now() + limit_ * 9 / 10))};
    });
    add("limit", kTryAgain, [this] {
      return judge_limits(probe_limits(step_ ? step_->nodes.size() : 1));
    });
    Findings findings = run_probes(probes_);
    std::erase_if(findings, [this](const Finding& finding) { return is_left_out(finding); });
    return findings;
  }

  /// This node's name, for its lines; empty if there is only one node.
  std::string label() const { return step_ && has_others() ? step_->node_name() : ""; }

 private:
  bool has_others() const { return step_ && step_->nodes.size() > 1; }

  bool is_left_out(const Finding& finding) const {
    return std::ranges::find(options_.skip, check_of(finding)) != options_.skip.end();
  }

  std::string value_of(const char* name) const {
    const auto found = environment_.find(name);
    return found == environment_.end() ? "" : found->second;
  }

  void add(
      std::string subject,
      std::string remedy,
      std::function<Findings()> take,
      Duration more = Duration::zero()) {
    Probe probe{
        .subject = std::move(subject),
        .remedy = std::move(remedy),
        .take = std::move(take),
        .limit = limit_ + more};
    if (!is_left_out({.subject = probe.subject, .seen = "", .remedy = ""})) {
      probes_.push_back(std::move(probe));
    }
  }

  void add_network() {
    const std::string host = host_name();
    add("name " + host, kNameService, [this, host] {
      const Others others = !step_ ? Others::kNotKnown : has_others() ? Others::kYes : Others::kNo;
      return Findings{judge_host_name(host, addresses_of(host), others)};
    });
    add_interfaces();
    // Of several tasks on a node, each would find the port taken by the other.
    const bool is_first_here = !step_ || step_->local_id == 0;
    if (port_ != 0 && is_first_here) add_port();
    for (const Endpoint& endpoint : options_.reach) {
      const std::string subject = "reach " + endpoint.to_string();
      add(subject, kNameService, [this, endpoint, subject] {
        // A little less than the limit, so that the cause is reported and not only a missing
        // answer.
        const auto reached = BlockingSocket::connect(endpoint, Clock::now() + limit_ * 9 / 10);
        if (reached) return Findings{{.subject = subject, .seen = "connected", .remedy = ""}};
        return Findings{refused(
            subject,
            reached.error(),
            "check that it listens, which interface leads there, and that no firewall blocks it")};
      });
    }
  }

  void add_interfaces() {
    const auto add_named = [this](NamedBy by, const std::string& names) {
      if (names.empty()) return;
      add("interface " + names, kTryAgain, [by, names] {
        const auto interfaces = own_interfaces();
        if (!interfaces) return Findings{refused("interface", interfaces.error(), kTryAgain)};
        return Findings{judge_interface(by, names, *interfaces)};
      });
    };
    add_named(NamedBy::kFlag, options_.interface);
    add_named(NamedBy::kGloo, value_of("GLOO_SOCKET_IFNAME"));
    add_named(NamedBy::kNccl, value_of("NCCL_SOCKET_IFNAME"));
    std::string other = kAnywhere;
    if (step_ && has_others()) other = step_->nodes[step_->node_id == 0 ? 1 : 0];
    add("interface", kNameService, [this, other] {
      const auto interfaces = own_interfaces();
      if (!interfaces) return Findings{refused("interface", interfaces.error(), kTryAgain)};
      // A name that does not resolve says nothing about routes; the probe of the names reports it.
      const std::string towards = addresses_of(other) ? other : kAnywhere;
      return Findings{judge_route(*interfaces, source_towards(towards), has_others())};
    });
  }

  /// Checks whether the port is free. If so, the doctors of the other nodes connect to it.
  void add_port() {
    auto listening = listen_on({.host = "", .port = port_});
    // A little less than the limit, as above.
    std::function<Port()> look = [this] { return Port{.number = port_, .error = {}, .owner = ""}; };
    if (listening) {
      listening_ = *std::move(listening);
    } else {
      look = [this, why = listening.error()] { return taken_port(port_, why, limit_ * 9 / 10); };
    }
    add(fmt::format("port {}", port_), kTryAgain, [look] { return Findings{judge_port(look())}; });
    if (!has_others()) return;
    const Duration wait = seconds(options_.wait_s);
    add(
        "reach",
        kTryAgain,
        [this, wait, look] {
          if (listening_.empty() && !look().job) {
            return Findings{
                {.subject = "reach",
                 .seen = "the other nodes were not checked, because the port is taken",
                 .remedy = "try again when it is free, or with another one (--port)"}};
          }
          const ConnectivityLimits limits{.probe = limit_, .all = wait};
          return judge_connectivity(
              check_connectivity(*step_, port_, std::move(listening_), limits), port_);
        },
        wait);
  }

  void add_disks() {
    std::error_code gone;
    const std::string temporary = value_of("TMPDIR");
    std::vector<std::string> directories = {std::filesystem::current_path(gone)};
    if (gone) directories = {"."};
    directories.push_back(temporary.empty() ? "/tmp" : temporary);
    std::string logs = options_.log_directory;
    if (logs.empty()) logs = value_of("PET_LOG_DIR");
    if (!logs.empty()) directories.push_back(logs);
    std::ranges::sort(directories);
    const auto twice = std::ranges::unique(directories);
    directories.erase(twice.begin(), twice.end());
    const std::uint64_t min = options_.bytes_free_min;
    for (const std::string& path : directories) {
      add("disk " + path, kDeadDisk, [path, min] {
        return Findings{judge_disk(probe_disk(path), min)};
      });
    }
    add("shm", kTryAgain, [] { return Findings{judge_shm(probe_disk("/dev/shm"))}; });
  }

  const DoctorOptions& options_;
  std::map<std::string, std::string> environment_;
  Duration limit_;
  std::optional<Allocation> step_;
  std::uint16_t port_ = 0;
  std::vector<Descriptor> listening_;  // on port_, since before the probes start
  std::vector<Probe> probes_;
};

}  // namespace

const std::vector<std::string>& check_names() {
  static const std::vector<std::string> names = {
      "slurm",
      "hostlist",
      "name",
      "interface",
      "port",
      "reach",
      "clock",
      "disk",
      "shm",
      "data",
      "gpus",
      "python",
      "limit"};
  return names;
}

Result<bool> examine(const DoctorOptions& options) {
  Examination examination(options, current_environment());
  const Findings findings = examination.run();
  const std::string node = examination.label();
  const auto written = write_stdout(
      options.json ? findings_json(findings, node.empty() ? host_name() : node)
                   : findings_text(findings, node));
  if (!written) return written.error();
  return std::ranges::all_of(findings, &Finding::is_well);
}

}  // namespace ddprun
