#include "launcher/ctl/submit/core/arguments.hpp"

#include "base/format_error.hpp"
#include "slurm/core/batch_script.hpp"

#include <utility>

namespace ddprun {
namespace {

Error refused(std::string_view why) {
  return invalid_argument("{}; see ddpctl submit --help", why);
}

}  // namespace

Result<SubmitOptions> parse_submit(const std::vector<std::string>& arguments) {
  auto command = parse_sbatch(arguments);
  if (!command) return refused(command.error().detail);
  SubmitOptions options;
  for (SbatchOption& option : std::exchange(command->options, {})) {
    if (option.name == "help" || option.name == "h") {
      options.wants_help = true;
    } else if (option.name == "dry-run") {
      if (!option.value.empty()) return refused("--dry-run takes no value");
      options.dry_run = true;
    } else if (option.name == "code-dir") {
      if (option.value.empty()) return refused("--code-dir: expected a directory");
      options.code_dir = std::move(option.value);
    } else {
      command->options.push_back(std::move(option));
    }
  }
  options.sbatch = *std::move(command);
  if (options.wants_help) return options;
  const bool is_wrapped = options.sbatch.find("wrap") != nullptr;
  if (is_wrapped && !options.sbatch.rest.empty())
    return refused("give a SCRIPT or --wrap, not both");
  if (!is_wrapped && options.sbatch.rest.empty()) return refused("SCRIPT is required");
  if (const auto fits = check_place(options.sbatch); !fits) return fits.error();
  return options;
}

std::string_view submit_help() {
  return "Submit a batch script whose job runs the committed code, whatever is edited later.\n"
         "Refuse a work tree with changes, and then do not call sbatch.\n"
         "Usage: ddpctl submit [OPTIONS] [options of sbatch] SCRIPT [ARGUMENTS...]\n\n"
         "Options:\n"
         "  -h,--help                   Print this help message and exit\n"
         "  --dry-run                   Print the job's script and the command line of sbatch;\n"
         "                              create and submit nothing\n"
         "  --code-dir DIR              Directory for the code of commits, one subdirectory each;\n"
         "                              every node must see it (default: ddprun-code in the\n"
         "                              repository's .git)\n";
}

}  // namespace ddprun
