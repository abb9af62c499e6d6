#include "base/flag_checks.hpp"
#include "launcher/ctl/stage/stage.hpp"

#include <CLI/CLI.hpp>

#include <optional>
#include <utility>

namespace ddprun {

void add_stage(CLI::App& app, RawStage& raw) {
  CLI::App* const stage =
      app.add_subcommand("stage", "Extract an archive to a local disk, once on each node");
  stage->add_option("ARCHIVE", raw.archive, "A tar, tar.gz, .bz2, .xz, .zst or zip file")
      ->required()
      ->check(not_empty());
  stage->add_option("DEST", raw.destination, "Directory to create")->required()->check(not_empty());
  CLI::Option* const md5 =
      stage->add_option("--md5", raw.md5, "Checksum of the archive")->check(not_empty());
  CLI::Option* const sha256 =
      stage->add_option("--sha256", raw.sha256, "Checksum of the archive")->check(not_empty());
  stage
      ->add_option(
          "--checksum-file", raw.checksum_file, "Output of md5sum or sha256sum for the archive")
      ->check(not_empty())
      ->excludes(md5)
      ->excludes(sha256);
  md5->excludes(sha256);
}

Result<StageOptions> checked(const RawStage& raw) {
  StageOptions options{
      .archive = raw.archive,
      .destination = raw.destination,
      .checksum = std::nullopt,
      .checksum_file = raw.checksum_file};
  const bool is_md5 = !raw.md5.empty();
  if (!is_md5 && raw.sha256.empty()) return options;
  auto checksum = is_md5 ? parse_checksum(DigestKind::kMd5, raw.md5)
                         : parse_checksum(DigestKind::kSha256, raw.sha256);
  if (!checksum) return with_context(is_md5 ? "--md5" : "--sha256", checksum.error());
  options.checksum = *std::move(checksum);
  return options;
}

}  // namespace ddprun
