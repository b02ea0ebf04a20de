#include <sepal/bloom/filter/image.hpp>
#include <sepal/bloom/filter/kind.hpp>
#include <sepal/bloom/memory/memory.hpp>
#include <sepal/bloom/strings/bit_string.hpp>

#include <csignal>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/catch.hpp"

namespace bit_string_test {

namespace {

using namespace sepal;
using namespace sepal::bloom;

constexpr FilterLimits enough{.bytes_max = std::uint64_t{1} << 40, .layers_max = 64};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

FilterPtr string_with_room(std::uint64_t byte_count) {
  auto made = BitString::with_room(byte_count, enough);
  REQUIRE(made);
  return FilterPtr(static_cast<Filter*>(made->get()));
}

}  // namespace

TEST_CASE("a string holds what was written, and zeros between", "[filter]") {
  // Small, on the heap, and a mapping of its own.
  const std::uint64_t capacity = GENERATE(64, 20'000, 300'000);
  const FilterPtr made = string_with_room(capacity);
  BitString string(*made);
  CHECK(string.length() == 0);
  CHECK(string.text().empty());
  string.write(capacity - 20, bytes_of("the end"));
  string.write(3, bytes_of("x"));
  CHECK(string.length() == capacity - 13);
  std::string expected(capacity - 13, '\0');
  expected.replace(capacity - 20, 7, "the end");
  expected[3] = 'x';
  CHECK(string.text() == expected);
  CHECK(string.text(capacity - 20, 3) == "the");
  CHECK(string.text(capacity).empty());
}

TEST_CASE("a large string takes memory only for the pages that were written to", "[filter]") {
  const FilterPtr made = string_with_room(string_bytes_max);
  BitString string(*made);
  const std::uint64_t before = made->byte_count();
  CHECK(before < 100'000);
  const std::byte one{1};
  string.write(string_bytes_max - 1, {&one, 1});
  CHECK(string.length() == string_bytes_max);
  CHECK(made->byte_count() == before + 2 * 4096);  // the page, and its table
  CHECK(string.bytes_to_touch(0, 4097) == 3 * 4096);
  CHECK(string.try_set(0, nullptr) == std::nullopt);
  CHECK_FALSE(string.bit(12'345'678));
  string.write(0, {&one, 1});
  CHECK(string.try_set(0, nullptr) == false);
  CHECK(string.try_set(0, nullptr) == true);
  CHECK(string.bit(0));
  CHECK(made->byte_count() == before + 4 * 4096);
}

TEST_CASE("a table of pages counts once for 512 pages", "[filter]") {
  constexpr std::uint64_t table_bytes = 512 * 4096;
  const FilterPtr made = string_with_room(string_bytes_max);
  BitString string(*made);
  const std::uint64_t before = made->byte_count();
  CHECK(string.bytes_to_touch(0, table_bytes) == 513 * 4096);
  CHECK(string.bytes_to_touch(0, table_bytes + 1) == 515 * 4096);
  string.write(table_bytes - 1, bytes_of("x"));
  CHECK(string.bytes_to_touch(0, table_bytes) == 511 * 4096);
  string.write(0, bytes_of("x"));
  CHECK(made->byte_count() == before + 3 * 4096);
  string.write(table_bytes, bytes_of("x"));
  CHECK(made->byte_count() == before + 5 * 4096);
}

TEST_CASE("a thousand bits at random in a string of 512 MB take at most 5.2 MB", "[filter]") {
  const FilterPtr made = string_with_room(string_bytes_max);
  BitString string(*made);
  std::mt19937_64 random(1);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same bits in each run
  for (int bit = 0; bit < 1000; ++bit) {
    const std::byte one{1};
    string.write(random() % string_bytes_max, {&one, 1});
  }
  CHECK(made->byte_count() <= 5'200'000);
}

TEST_CASE("sparse strings leave mappings for the rest of the process", "[filter]") {
  const auto code = [](const auto& made) {
    return made ? std::optional<Errc>() : std::optional(made.error().code);
  };
  const FilterPtr before_the_limit = string_with_room(300'000);
  limit_string_mappings(8);  // 3 strings
  std::vector<FilterPtr> strings;
  for (int i = 0; i < 2; ++i) strings.push_back(string_with_room(300'000));
  CHECK(code(BitString::with_room(300'000, enough)) == Errc::mapping_limit);
  CHECK(code(filter_of(whole_image(*before_the_limit), enough)) == Errc::mapping_limit);
  // A short string needs none, until it grows to a sparse one. A sparse one grows.
  const FilterPtr small = string_with_room(100'000);
  CHECK(code(BitString(*small).grown(300'000, enough)) == Errc::mapping_limit);
  CHECK(code(BitString(*strings[0]).grown(1'000'000, enough)) == std::nullopt);
  strings.pop_back();
  CHECK(code(BitString::with_room(300'000, enough)) == std::nullopt);
  limit_string_mappings(std::numeric_limits<std::uint64_t>::max());
  CHECK(code(BitString::with_room(300'000, enough)) == std::nullopt);
}

#ifndef SEPAL_SANITIZED
namespace {

bool limit_addresses(std::uint64_t bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0) return false;
  limit.rlim_cur = bytes;
  return setrlimit(RLIMIT_AS, &limit) == 0;
}

// Takes all memory that malloc() has, except some short blocks. Nothing of it is given back.
void use_up_memory() {
  // Volatile, so that the compiler leaves the calls in.
  [[maybe_unused]] static void* volatile taken = nullptr;
  const auto take = [](std::size_t bytes) {
    void* const memory = std::malloc(bytes);
    taken = memory;
    return memory != nullptr;
  };
  std::array<void*, 16> blocks{};
  for (void*& block : blocks) {
    block = std::malloc(1000);
    take(1000);
  }
  for (std::size_t bytes = 1 << 20; bytes >= 32; bytes /= 2)
    while (take(bytes)) continue;
  for (void* const block : blocks) std::free(block);
}

// In a process that has addresses for one string, and no memory for what describes its pages. 0: the string
// was refused, and its addresses went back. noexcept: an exception ends the process.
int outcome_without_memory() noexcept {
  std::uint64_t pages = 0;
  if (!(std::ifstream("/proc/self/statm") >> pages) || !limit_addresses(0)) return 1;
  use_up_memory();
  const std::uint64_t room = string_bytes_max + 8192;
  if (!limit_addresses(pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) + room)) return 2;
  const auto made = BitString::with_room(300'000, enough);
  if (made || made.error().code != Errc::out_of_memory) return 3;
  return mmap(nullptr, string_bytes_max, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) ==
                 MAP_FAILED
             ? 4
             : 0;
}

}  // namespace

TEST_CASE("a sparse string is refused where the system has no memory for it", "[filter]") {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit no_core{};
    setrlimit(RLIMIT_CORE, &no_core);
    ::signal(SIGABRT, SIG_DFL);  // not Catch's
    _exit(outcome_without_memory());
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
#endif

TEST_CASE("bits are counted and found as in a set of numbers", "[filter]") {
  std::mt19937_64 random(2);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same bits in each run
  const std::uint64_t byte_count = GENERATE(1, 9, 5'000, 270'000);
  const FilterPtr made = string_with_room(byte_count);
  BitString string(*made);
  std::set<std::uint64_t> ones;
  for (int i = 0; i < 300; ++i) {
    const auto byte = static_cast<std::byte>(random());
    const std::uint64_t at = random() % byte_count;
    string.write(at, {&byte, 1});
    for (std::uint64_t bit = 0; bit < 8; ++bit) {
      if ((std::to_integer<unsigned>(byte) >> (7 - bit) & 1) != 0)
        ones.insert(8 * at + bit);
      else
        ones.erase(8 * at + bit);
    }
  }
  const std::uint64_t bits = 8 * string.length();
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t one = random() % (bits + 1);
    const std::uint64_t other = random() % (bits + 1);
    const BitRange range{.begin = std::min(one, other), .end = std::max(one, other)};
    const auto first = ones.lower_bound(range.begin);
    const auto behind = ones.lower_bound(range.end);
    std::uint64_t clear = range.begin;
    while (clear < range.end && ones.contains(clear)) ++clear;
    CHECK(string.count(range) == static_cast<std::uint64_t>(std::distance(first, behind)));
    CHECK(string.find(true, range) == (first == behind ? std::nullopt : std::optional(*first)));
    CHECK(string.find(false, range) == (clear == range.end ? std::nullopt : std::optional(clear)));
  }
}

TEST_CASE("a string that grows keeps its bytes, and takes no memory for pages without any", "[filter]") {
  const FilterPtr made = string_with_room(300'000);
  BitString string(*made);
  string.write(299'990, bytes_of("the end"));
  const auto larger = string.grown(1'000'000, enough);
  REQUIRE(larger);
  const BitString copy(**larger);
  CHECK(copy.text() == string.text());
  CHECK(copy.capacity() >= 1'000'000);
  CHECK(string_row.byte_count(**larger) < 30'000);
  CHECK_FALSE(string.grown(string_bytes_max + 1, enough));
  // They share their memory: what is written to one of them is in both.
  string.write(0, bytes_of("x"));
  CHECK(copy.bit(1));
  const FilterPtr small = string_with_room(10);
  CHECK(BitString(*small).grown(10'000, {.bytes_max = 100, .layers_max = 1}).error().code == Errc::too_large);
}

TEST_CASE("an image of a string is read as the string that it was", "[filter][image]") {
  const std::uint64_t byte_count = GENERATE(1, 5'000, 600'000);
  const FilterPtr made = string_with_room(byte_count);
  BitString(*made).write(byte_count / 2, bytes_of("x"));
  const auto image = whole_image(*made);
  CHECK(image[4] == std::byte{3});
  const auto read = filter_of(image, enough);
  REQUIRE(read);
  CHECK((*read)->is_string());
  CHECK(BitString(**read).text() == BitString(*made).text());
  CHECK((*read)->byte_count() == made->byte_count());
}

TEST_CASE("a header of a string with values that no string has is damaged", "[filter][image]") {
  const FilterPtr made = string_with_room(100);
  const auto refused = [&](auto change) {
    ImageHeader header = header_of(*made);
    change(header);
    const auto decoded = decode_image_header(encode(header), 64);
    return !decoded && decoded.error().code == Errc::damaged;
  };
  CHECK_FALSE(refused([](ImageHeader&) {}));
  CHECK(refused([](ImageHeader& header) { header.layers[0].item_count = 105; }));
  CHECK(refused([](ImageHeader& header) { header.layers[0].plan.probe_count = 1; }));
  CHECK(refused([](ImageHeader& header) { header.layers[0].plan.layout = Layout::double_hashing; }));
  CHECK(refused([](ImageHeader& header) { header.layers[0].plan.block_bits = 128; }));
  CHECK(refused([](ImageHeader& header) { header.layers[0].plan.block_count = string_bytes_max / 8 + 1; }));
  CHECK(refused([](ImageHeader& header) { header.options.expansion = 2; }));
  CHECK(refused([](ImageHeader& header) { header.options.capacity = 103; }));
  CHECK(refused([](ImageHeader& header) { header.layers.push_back(header.layers[0]); }));
}

TEST_CASE("of several threads that set a bit, one is told that it was clear", "[filter][threads]") {
  constexpr std::uint64_t bits = 4096;
  constexpr int thread_count = 4;
  const FilterPtr made = string_with_room(bits / 8);
  BitString(*made).write(bits / 8 - 1, bytes_of(std::string_view("\0", 1)));
  std::atomic<std::uint64_t> cleared{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < thread_count; ++i) {
    threads.emplace_back([&] {
      BitString string(*made);
      for (std::uint64_t bit = 0; bit < bits; ++bit)
        if (!string.try_set(bit, nullptr).value()) ++cleared;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(cleared == bits);
  CHECK(BitString(*made).count({.begin = 0, .end = bits}) == bits);
}

}  // namespace bit_string_test
