#include <sepal/strings/kind.hpp>
#include <sepal/value/image.hpp>

#include <csignal>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/catch.hpp"
#include "support/pretended_pages.hpp"

namespace string_test {

namespace {

using namespace sepal;
using namespace sepal::strings;

constexpr value::Limits enough{.bytes_max = std::uint64_t{1} << 40, .layers_max = 64};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

StringPtr string_with_room(std::uint64_t byte_count) {
  auto made = String::with_room(byte_count, enough);
  REQUIRE(made);
  return *made;
}

}  // namespace

TEST_CASE("a string holds what was written, and zeros between") {
  // Small, on the heap, and a mapping of its own.
  const std::uint64_t capacity = GENERATE(64, 20'000, 300'000);
  const StringPtr made = string_with_room(capacity);
  String& string = *made;
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

TEST_CASE("a large string takes memory only for the pages that were written to") {
  test::with_each_page_size([](std::uint64_t page_bytes) {
    CAPTURE(page_bytes);
    const StringPtr made = string_with_room(string_bytes_max);
    String& string = *made;
    const std::uint64_t before = made->byte_count();
    CHECK(before < 100'000);
    const std::byte one{1};
    string.write(string_bytes_max - 1, {&one, 1});
    CHECK(string.length() == string_bytes_max);
    CHECK(made->byte_count() == before + 2 * page_bytes);  // the page, and its table
    // A table of the largest pages describes the whole string.
    const std::uint64_t tables = value::PageSizes(page_bytes).huge_bytes() == string_bytes_max ? 0 : 1;
    CHECK(string.bytes_to_touch(0, page_bytes + 1) == (2 + tables) * page_bytes);
    CHECK(string.try_set(0, nullptr) == std::nullopt);
    CHECK_FALSE(string.bit(12'345'678));
    string.write(0, {&one, 1});
    CHECK(string.try_set(0, nullptr) == false);
    CHECK(string.try_set(0, nullptr) == true);
    CHECK(string.bit(0));
    CHECK(made->byte_count() == before + (3 + tables) * page_bytes);
    // The rest of a page costs nothing more, and zeros that were never written are read as zeros.
    CHECK(string.bytes_to_touch(1, page_bytes - 1) == 0);
    CHECK(string.text(page_bytes - 1, 1) == std::string(1, '\0'));
    string.write(page_bytes - 1, {&one, 1});
    CHECK(string.text(page_bytes - 1, 1) == "\x01");
    CHECK(made->byte_count() == before + (3 + tables) * page_bytes);
  });
}

TEST_CASE("a table of pages counts once for 512 pages of 4 KiB, and for more larger ones") {
  test::with_each_page_size([](std::uint64_t page_bytes) {
    const std::uint64_t table_bytes = value::PageSizes(page_bytes).huge_bytes();
    if (table_bytes == string_bytes_max) return;  // the test above
    CAPTURE(page_bytes);
    const std::uint64_t table_pages = table_bytes / page_bytes;
    const StringPtr made = string_with_room(string_bytes_max);
    String& string = *made;
    const std::uint64_t before = made->byte_count();
    CHECK(string.bytes_to_touch(0, table_bytes) == (table_pages + 1) * page_bytes);
    CHECK(string.bytes_to_touch(0, table_bytes + 1) == (table_pages + 3) * page_bytes);
    string.write(table_bytes - 1, bytes_of("x"));
    CHECK(string.bytes_to_touch(0, table_bytes) == (table_pages - 1) * page_bytes);
    string.write(0, bytes_of("x"));
    CHECK(made->byte_count() == before + 3 * page_bytes);
    string.write(table_bytes, bytes_of("x"));
    CHECK(made->byte_count() == before + 5 * page_bytes);
  });
}

TEST_CASE("a thousand bits at random in a string of 512 MB take at most 5.2 MB of small pages") {
  const StringPtr made = string_with_room(string_bytes_max);
  String& string = *made;
  std::mt19937_64 random(1);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same bits in each run
  for (int bit = 0; bit < 1000; ++bit) {
    const std::byte one{1};
    string.write(random() % string_bytes_max, {&one, 1});
  }
  const std::uint64_t larger = value::page_sizes().small_bytes() / value::PageSizes::least_small_bytes;
  CHECK(made->byte_count() <= 5'200'000 * larger);
}

TEST_CASE("sparse strings leave mappings for the rest of the process") {
  const auto code = [](const auto& made) {
    return made ? std::optional<Errc>() : std::optional(made.error().code);
  };
  const StringPtr before_the_limit = string_with_room(300'000);
  limit_mappings(8);  // 3 strings
  std::vector<StringPtr> strings;
  for (int i = 0; i < 2; ++i) strings.push_back(string_with_room(300'000));
  CHECK(code(String::with_room(300'000, enough)) == Errc::mapping_limit);
  CHECK(code(value::value_of(value::image_of(*before_the_limit), enough)) == Errc::mapping_limit);
  // A short string needs none, until it grows to a sparse one. A sparse one grows.
  const StringPtr small = string_with_room(100'000);
  CHECK(code(small->grown(300'000, enough)) == Errc::mapping_limit);
  CHECK(code(strings[0]->grown(1'000'000, enough)) == std::nullopt);
  strings.pop_back();
  CHECK(code(String::with_room(300'000, enough)) == std::nullopt);
  limit_mappings(std::numeric_limits<std::uint64_t>::max());
  CHECK(code(String::with_room(300'000, enough)) == std::nullopt);
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
  const auto made = String::with_room(300'000, enough);
  if (made || made.error().code != Errc::out_of_memory) return 3;
  return mmap(nullptr, string_bytes_max, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) ==
                 MAP_FAILED
             ? 4
             : 0;
}

}  // namespace

TEST_CASE("a sparse string is refused where the system has no memory for it") {
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

TEST_CASE("bits are counted and found as in a set of numbers") {
  std::mt19937_64 random(2);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same bits in each run
  const std::uint64_t byte_count = GENERATE(1, 9, 5'000, 270'000);
  const StringPtr made = string_with_room(byte_count);
  String& string = *made;
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

TEST_CASE("a string that grows keeps its bytes, and takes no memory for pages without any") {
  const StringPtr made = string_with_room(300'000);
  String& string = *made;
  string.write(299'990, bytes_of("the end"));
  const auto larger = string.grown(1'000'000, enough);
  REQUIRE(larger);
  const String& copy = **larger;
  CHECK(copy.text() == string.text());
  CHECK(copy.capacity() >= 1'000'000);
  CHECK(copy.byte_count() < 22'000 + 2 * value::page_sizes().small_bytes());
  CHECK_FALSE(string.grown(string_bytes_max + 1, enough));
  // They share their memory: what is written to one of them is in both.
  string.write(0, bytes_of("x"));
  CHECK(copy.bit(1));
  const StringPtr small = string_with_room(10);
  CHECK(small->grown(10'000, {.bytes_max = 100, .layers_max = 1}).error().code == Errc::too_large);
}

TEST_CASE("an image of a string is read as the string that it was") {
  const std::uint64_t byte_count = GENERATE(1, 5'000, 600'000);
  const StringPtr made = string_with_room(byte_count);
  made->write(byte_count / 2, bytes_of("x"));
  const auto image = value::image_of(*made);
  const ImageHead head = image_head(made->length());
  CHECK(image.size() == image_head_bytes + made->capacity());
  // A program writes the head by the length alone; this string has more room.
  CHECK(std::equal(head.begin(), head.begin() + 24, image.begin()));
  const auto read = value::value_of(image, enough);
  REQUIRE(read);
  const auto& same = value::as<String>(**read);
  CHECK(same.text() == made->text());
  CHECK(same.byte_count() == made->byte_count());
  CHECK(value::image_of(same) == image);
}

TEST_CASE("the head of a string has the bytes of every version") {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string hex;
  for (const std::byte byte : image_head(9)) {
    hex += digits[std::to_integer<unsigned>(byte) >> 4];
    hex += digits[std::to_integer<unsigned>(byte) & 15];
  }
  CHECK(hex ==
        "53504c46030002000000000000000000000000000000e03f10000000000000000000000001000000"
        "1000000000000000000000000000e03f0200000000000000400000000000000009000000000000000200000000000000");
  CHECK(image_body_bytes(9) == 16);
  CHECK(image_body_bytes(0) == 8);
}

TEST_CASE("a head of a string with values that no string has is damaged") {
  const auto image = value::image_of(*string_with_room(100));
  const auto code = [&](std::size_t at, std::uint8_t byte) -> std::optional<Errc> {
    auto changed = image;
    changed[at] = std::byte{byte};
    const auto read = string_row.read_head(changed, 64);
    return read ? std::optional<Errc>() : read.error().code;
  };
  CHECK(code(72, 104) == std::nullopt);   // the length
  CHECK(code(72, 105) == Errc::damaged);  // beyond the capacity
  CHECK(code(4, 5) == Errc::unsupported_version);
  for (const std::size_t at : {8, 16, 24, 32, 36, 40, 48, 56, 64, 68, 80, 81, 82, 83, 84})
    CHECK(code(at, 0x55) == Errc::damaged);
  for (std::size_t length = 0; length < image_head_bytes; ++length)
    CHECK_FALSE(string_row.read_head(std::span(image).first(length), 64));
  const auto longer = [&](std::uint64_t capacity) {
    auto changed = image;
    for (const std::size_t at : {24, 40}) std::memcpy(changed.data() + at, &capacity, sizeof capacity);
    const std::uint64_t words = capacity / 8;
    std::memcpy(changed.data() + 56, &words, sizeof words);
    return string_row.read_head(changed, 64).ok();
  };
  CHECK(longer(string_bytes_max));
  CHECK_FALSE(longer(string_bytes_max + 8));
  CHECK_FALSE(longer(0));
}

TEST_CASE("of several threads that set a bit, one is told that it was clear") {
  constexpr std::uint64_t bits = 4096;
  constexpr int thread_count = 4;
  const StringPtr made = string_with_room(bits / 8);
  made->write(bits / 8 - 1, bytes_of(std::string_view("\0", 1)));
  std::atomic<std::uint64_t> cleared{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < thread_count; ++i) {
    threads.emplace_back([&] {
      String& string = *made;
      for (std::uint64_t bit = 0; bit < bits; ++bit)
        if (!string.try_set(bit, nullptr).value()) ++cleared;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(cleared == bits);
  CHECK(made->count({.begin = 0, .end = bits}) == bits);
}

}  // namespace string_test
