// An engine with a server that answers what the test wants.
#pragma once

#include <sepal/script/engine.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace sepal::test::script_engine {

using namespace script;

// Answers commands with a text of the test's choice, and keeps what it was asked.
class FakeServer final : public Server {
 public:
  bool call(std::span<const std::string_view> words, resp::Reply& reply) override {
    asked.emplace_back(words.begin(), words.end());
    if (asked.size() >= calls_max) return false;
    if (on_call) on_call(reply);
    if (!on_call) reply.raw(answer);
    return true;
  }
  Permission permits(std::span<const std::string_view> words) override {
    if (words[0] == "nosuch") return Permission::unknown_command;
    return words[0] == "allowed" ? Permission::granted : Permission::denied;
  }
  void log(LogLevel, std::string_view text) override { logged.emplace_back(text); }
  Pace goes_on() override {
    ++questions;
    return questions < questions_max ? Pace::brisk : Pace::ends;
  }

  std::string answer = "+OK\r\n";
  std::function<void(resp::Reply&)> on_call;
  std::vector<std::vector<std::string>> asked;
  std::vector<std::string> logged;
  std::size_t calls_max = 1000;
  int questions = 0;
  int questions_max = 100'000;
};

struct World {
  FakeServer server;
  Engine engine;
  Limits limits{.memory_bytes_max = 16u << 20, .reply_bytes_max = 1u << 20};
  std::vector<std::string_view> keys;
  std::vector<std::string_view> arguments;
  resp::Version version = resp::Version::resp2;

  std::string run(const std::string& text) {
    const ParsedSource parsed = parse_source(text);
    if (parsed.source == nullptr) return parsed.error;
    server.questions = 0;
    if (std::string error = engine.compile(parsed.source, server, limits); !error.empty()) return error;
    resp::Reply reply;
    reply.set_version(version);
    engine.run({.source = *parsed.source,
                .keys = keys,
                .arguments = arguments,
                .server = server,
                .reply = reply,
                .limits = limits});
    return std::string(reply.bytes());
  }
};

// The limit of a library's texts.
inline constexpr std::uint64_t bytes_max = 16u << 20;

inline bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace sepal::test::script_engine
