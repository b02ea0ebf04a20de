// Parses bytes into requests, and encodes answers as bytes.
#include <sepal/resp/reply.hpp>
#include <sepal/resp/request_parser.hpp>

#include <benchmark/benchmark.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

using namespace sepal::resp;

constexpr std::size_t item_count = 100;

void append_word(std::string& to, std::string_view word) {
  to += "$" + std::to_string(word.size()) + "\r\n";
  to.append(word).append("\r\n");
}

std::string item(std::size_t number) {
  return "item:" + std::to_string(10'000'000'000 + number);
}

std::string pipeline_of_adds() {
  std::string bytes;
  for (std::size_t i = 0; i < item_count; ++i) {
    bytes += "*3\r\n";
    append_word(bytes, "BF.ADD");
    append_word(bytes, "giant");
    append_word(bytes, item(i));
  }
  return bytes;
}

std::string madd() {
  std::string bytes = "*" + std::to_string(item_count + 2) + "\r\n";
  append_word(bytes, "BF.MADD");
  append_word(bytes, "giant");
  for (std::size_t i = 0; i < item_count; ++i) append_word(bytes, item(i));
  return bytes;
}

void set_bytes(benchmark::State& state, std::size_t bytes_per_round) {
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes_per_round));
}

std::string_view rest_after(const RequestParser& parser, std::string_view bytes) {
  return bytes.substr(parser.consumed());
}

// Parses all requests one by one.
void parse(benchmark::State& state, const std::string& bytes) {
  RequestParser parser{ParserLimits{}};
  for (auto _ : state) {
    std::string_view rest = bytes;
    while (!rest.empty()) {
      if (parser.next(rest) != Progress::complete) std::abort();
      rest = rest_after(parser, rest);
    }
    benchmark::DoNotOptimize(parser.words().data());
  }
  set_bytes(state, bytes.size());
}
BENCHMARK_CAPTURE(parse, 100_BF.ADD, pipeline_of_adds());
BENCHMARK_CAPTURE(parse, BF.MADD_of_100, madd());

// Parses the first request, and the rest of the pipeline as its neighbours.
void parse_alike(benchmark::State& state) {
  const std::string bytes = pipeline_of_adds();
  RequestParser parser{ParserLimits{}};
  std::array<std::string_view, item_count> last_words;
  for (auto _ : state) {
    if (parser.next(bytes) != Progress::complete) std::abort();
    const std::string_view rest = rest_after(parser, bytes);
    if (parser.next_alike(rest, last_words) != item_count - 1) std::abort();
    benchmark::DoNotOptimize(last_words);
  }
  set_bytes(state, bytes.size());
}
BENCHMARK(parse_alike)->Name("parse_alike/100_BF.ADD");

// Encodes the answers of a batch into a buffer that has grown to their size.
void reply(benchmark::State& state, Version version, void (*append)(Reply&)) {
  Reply reply;
  reply.set_version(version);
  for (auto _ : state) {
    reply.truncate(0);
    append(reply);
    benchmark::DoNotOptimize(reply.bytes().data());
  }
  set_bytes(state, reply.size());
}

bool answer(std::size_t number) {
  return number % 3 == 0;
}

void each_boolean(Reply& reply) {
  for (std::size_t i = 0; i < item_count; ++i) reply.boolean(answer(i));
}

void array_of_booleans(Reply& reply) {
  static const auto answers = [] {
    std::array<bool, item_count> values{};
    for (std::size_t i = 0; i < item_count; ++i) values[i] = answer(i);
    return values;
  }();
  reply.array(answers.size());
  reply.booleans(answers);
}

void integers(Reply& reply) {
  for (std::size_t i = 0; i < item_count; ++i) reply.integer(static_cast<std::int64_t>(i) * 1'000'003);
}

BENCHMARK_CAPTURE(reply, 100_booleans_resp2, Version::resp2, each_boolean);
BENCHMARK_CAPTURE(reply, 100_booleans_resp3, Version::resp3, each_boolean);
BENCHMARK_CAPTURE(reply, array_of_100_booleans_resp2, Version::resp2, array_of_booleans);
BENCHMARK_CAPTURE(reply, array_of_100_booleans_resp3, Version::resp3, array_of_booleans);
BENCHMARK_CAPTURE(reply, 100_integers_resp2, Version::resp2, integers);

}  // namespace
