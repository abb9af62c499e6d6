#pragma once

// What torch 2.11 really sends on one connection to a fresh server, in this order, and what it
// expects in reply; recorded from a live client.

#include <array>
#include <string_view>

namespace ddprun::testing {

struct GoldenFrame {
  std::string_view name;
  std::string_view request;  // hex
  std::string_view reply;    // hex
};

inline constexpr std::array kGoldenFrames = {
    GoldenFrame{"VALIDATE", "00 CEF7853C", ""},
    GoldenFrame{"PING", "0D 39300000", "39300000"},
    GoldenFrame{
        "ADD init/ +1", "04 0500000000000000 696E69742F 0100000000000000", "0100000000000000"},
    GoldenFrame{"SET /k v", "01 0200000000000000 2F6B 0100000000000000 76", ""},
    GoldenFrame{"GET /k", "03 0200000000000000 2F6B", "0100000000000000 76"},
    GoldenFrame{"SET /e empty", "01 0200000000000000 2F65 0000000000000000", ""},
    GoldenFrame{"GET /e", "03 0200000000000000 2F65", "0000000000000000"},
    GoldenFrame{
        "COMPARE_SET /c absent, expects nothing",
        "02 0200000000000000 2F63 0000000000000000 0100000000000000 6E",
        "0100000000000000 6E"},
    GoldenFrame{
        "COMPARE_SET /c holds n, expects x",
        "02 0200000000000000 2F63 0100000000000000 78 0100000000000000 79",
        "0100000000000000 6E"},
    GoldenFrame{
        "COMPARE_SET /d absent, expects x",
        "02 0200000000000000 2F64 0100000000000000 78 0100000000000000 79",
        "0100000000000000 78"},
    GoldenFrame{"ADD /n -1", "04 0200000000000000 2F6E FFFFFFFFFFFFFFFF", "FFFFFFFFFFFFFFFF"},
    GoldenFrame{
        "CHECK /k /d", "05 0200000000000000 0200000000000000 2F6B 0200000000000000 2F64", "01"},
    GoldenFrame{
        "WAIT /k /c", "06 0200000000000000 0200000000000000 2F6B 0200000000000000 2F63", "00"},
    GoldenFrame{"CANCEL_WAIT", "0C", "01"},
    GoldenFrame{"GETNUMKEYS", "07", "0500000000000000"},
    GoldenFrame{"DELETE_KEY /n", "08 0200000000000000 2F6E", "0100000000000000"},
    GoldenFrame{"APPEND /k xy", "09 0200000000000000 2F6B 0200000000000000 7879", ""},
    GoldenFrame{
        "MULTI_SET /a /b",
        "0B 0200000000000000 0200000000000000 2F61 0100000000000000 31"
        " 0200000000000000 2F62 0200000000000000 3232",
        ""},
    GoldenFrame{
        "MULTI_GET /a /b",
        "0A 0200000000000000 0200000000000000 2F61 0200000000000000 2F62",
        "0100000000000000 31 0200000000000000 3232"},
    GoldenFrame{"MULTI_GET of nothing, PING 1", "0A 0000000000000000 0D 01000000", "01000000"},
    GoldenFrame{"QUEUE_PUSH /q a", "0E 0200000000000000 2F71 0100000000000000 61", ""},
    GoldenFrame{"QUEUE_LEN /q", "10 0200000000000000 2F71", "0100000000000000"},
    GoldenFrame{"QUEUE_POP /q", "0F 0200000000000000 2F71", "0100000000000000 0100000000000000 61"},
    GoldenFrame{"QUEUE_POP /q empty", "0F 0200000000000000 2F71", "0000000000000000"},
    GoldenFrame{"BARRIER /z 1", "12 0200000000000000 2F7A 0100000000000000", "00"},
};

}  // namespace ddprun::testing
