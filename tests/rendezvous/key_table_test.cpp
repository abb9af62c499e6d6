#include "rendezvous/core/key_table.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>
#include <set>
#include <string>

namespace ddprun {
namespace {

TEST(KeyTable, FindsWhatWasAdded) {
  KeyTable table;
  EXPECT_EQ(table.find("absent"), nullptr);
  table.add("", Value("empty key"));
  table.add("a", Value("1"));
  ASSERT_NE(table.find("a"), nullptr);
  EXPECT_EQ(table.find("a")->view(), "1");
  EXPECT_EQ(table.find("")->view(), "empty key");
  EXPECT_EQ(table.size(), 2U);
  table.remove("a");
  EXPECT_FALSE(table.contains("a"));
  EXPECT_EQ(table.size(), 1U);
}

TEST(KeyTable, FindsManyAtOnce) {
  KeyTable table;
  std::array<std::string, KeyTable::kAtOnceMax> names;
  std::array<std::string_view, KeyTable::kAtOnceMax> keys;
  for (std::size_t i = 0; i < names.size(); ++i) {
    names[i] = fmt::format("/key/{}", i);
    keys[i] = names[i];
    if (i % 3 != 0) table.add(names[i], Value(std::to_string(i)));
  }
  std::array<const Value*, KeyTable::kAtOnceMax> found{};
  table.find_all(keys, found);
  for (std::size_t i = 0; i < names.size(); ++i) {
    ASSERT_EQ(found[i] != nullptr, i % 3 != 0) << i;
    if (found[i] == nullptr) continue;
    EXPECT_EQ(found[i]->view(), std::to_string(i));
  }
}

// Adds and removes at random, in parallel with a std::map: no removal loses another key.
TEST(KeyTable, AgreesWithAMap) {
  std::mt19937 random(4711);
  KeyTable table;
  std::map<std::string, std::string> expected;
  for (int step = 0; step < 200'000; ++step) {
    const std::string key = fmt::format("/key/{}", random() % 3000);
    const bool present = expected.contains(key);
    ASSERT_EQ(table.contains(key), present) << key;
    if (present) {
      ASSERT_EQ(table.find(key)->view(), expected[key]);
      table.remove(key);
      expected.erase(key);
    } else {
      table.add(key, Value(std::to_string(step)));
      expected[key] = std::to_string(step);
    }
    ASSERT_EQ(table.size(), expected.size());
  }
  std::set<std::string> left;
  table.for_each_key([&left](std::string_view key) { left.emplace(key); });
  EXPECT_EQ(left.size(), expected.size());
  for (const auto& [key, value] : expected) {
    EXPECT_TRUE(left.contains(key));
    EXPECT_EQ(table.find(key)->view(), value);
  }
}

}  // namespace
}  // namespace ddprun
