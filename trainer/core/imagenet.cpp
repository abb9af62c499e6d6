#include "trainer/core/imagenet.hpp"

#include "base/parse.hpp"
#include "trainer/core/corrupt.hpp"
#include "trainer/core/mat_file.hpp"

#include <fmt/format.h>

#include <map>

namespace ddprun {
namespace {

using ClassByNumber = std::map<double, std::string>;

Result<ClassByNumber> leaves_of(std::string_view meta) {
  const auto table = read_mat_table(meta, "synsets");
  if (!table) return table.error();
  const auto number = table->column("ILSVRC2012_ID");
  const auto wnid = table->column("WNID");
  const auto children = table->column("num_children");
  if (!number || !wnid || !children) {
    return corrupt("its synsets lack one of ILSVRC2012_ID, WNID and num_children");
  }
  ClassByNumber classes;
  for (const std::vector<MatValue>& row : table->rows) {
    const auto* const count = std::get_if<double>(&row[*children]);
    const auto* const id = std::get_if<double>(&row[*number]);
    const auto* const name = std::get_if<std::string>(&row[*wnid]);
    const bool whole = count != nullptr && id != nullptr && name != nullptr && !name->empty() &&
                       name->find('/') == std::string::npos;
    if (!whole) return corrupt("a synset has no number, no WordNet id or no count of children");
    if (*count == 0) classes.emplace(*id, *name);
  }
  return classes;
}

}  // namespace

Result<std::vector<std::string>> imagenet_validation_classes(
    std::string_view meta, std::string_view ground_truth) {
  const auto leaves = leaves_of(meta);
  if (!leaves) return with_context(kImagenetMeta, leaves.error());
  std::vector<std::string> classes;
  for (const std::string_view line : split(ground_truth, '\n')) {
    if (trim(line).empty()) continue;
    const auto number = parse_int<int>(trim(line));
    const auto found = number ? leaves->find(*number) : leaves->end();
    if (found == leaves->end()) {
      return corrupt(fmt::format(
          "{}: label {} is not the number of a class: '{}'",
          kImagenetTruth,
          classes.size() + 1,
          trim(line).substr(0, 20)));
    }
    classes.push_back(found->second);
  }
  return classes;
}

}  // namespace ddprun
