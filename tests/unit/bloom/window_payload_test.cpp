// Payloads of filters that forget, as sepal.so writes them.
#include <sepal/bloom/foreign/rdb.hpp>
#include <sepal/bloom/kind/window_kind.hpp>
#include <sepal/value/image.hpp>
#include <sepal/value/module_payload.hpp>

#include <chrono>

#include "support/catch.hpp"
#include "support/rdb_text.hpp"

namespace window_payload_test {

namespace {

using namespace sepal;
using namespace sepal::bloom;
using test::bytes_of;
using test::RdbText;

constexpr value::Limits window_limits{.bytes_max = std::uint64_t{1} << 40, .layers_max = 64};
constexpr WallTime now{std::chrono::hours(500'000)};

// With further layers, if `item_count` is above the capacity.
WindowFilterPtr forgetting(std::uint64_t capacity, std::uint64_t milliseconds, std::uint64_t item_count) {
  const WindowOptions options{.capacity = capacity,
                              .expansion = milliseconds == 0 ? 0U : 2U,
                              .milliseconds = milliseconds,
                              .seed = 5};
  WindowFilterPtr filter =
      *WindowFilter::create(options, *plan_window(options, window_limits.bytes_max), now);
  std::vector<WindowFilter::AddOutcome> outcomes;
  for (std::uint64_t i = 0; i < item_count; ++i) {
    const std::string item = std::to_string(i);
    const std::string_view items[] = {item};
    outcomes.clear();
    (void)filter->add_each(items, now, WindowFilter::Refusal::full, outcomes, nullptr);
    if (outcomes.back().refusal == Filter::Refusal::full)
      REQUIRE(filter->grow(now, window_limits, {}) == Filter::Refusal::none);
  }
  return filter;
}

std::string payload_of(const value::ValuePtr& filter) {
  const value::Frozen frozen{filter};
  std::string payload;
  const auto pieces = window_row.payload->write(frozen.view(), {});
  REQUIRE(pieces);
  for (const std::string& piece : *pieces) payload += piece;
  CHECK(payload.size() == window_row.payload->byte_count(frozen.view()));
  return payload;
}

Result<value::ValuePtr> restored(std::string_view payload, const value::Limits& limits = window_limits) {
  // Memory of exactly the needed size, so that a sanitizer notices a read beyond its end.
  const std::vector<char> exact(payload.begin(), payload.end());
  const auto bytes = std::as_bytes(std::span(exact));
  const value::KindRow* const row = value::row_of_payload(bytes);
  REQUIRE(row != nullptr);
  return row->payload->read(bytes, limits, {});
}

std::string payload_with(std::string_view head, std::string_view body, int encoding = sepal_encoding) {
  RdbText text;
  text.bytes = "\x07";
  text.length(value::module_id(window_type_name, encoding));
  text.string(head);
  text.string(body);
  text.length(0);
  text.bytes += std::string("\x09\0", 2);
  return text.sealed();
}

}  // namespace

TEST_CASE("a payload of a filter that forgets gives the same filter") {
  const value::ValuePtr filters[] = {forgetting(100, 60'000, 0), forgetting(100, 60'000, 3000),
                                     forgetting(100, 0, 3000), forgetting(2'000'000, 60'000, 500)};
  for (const value::ValuePtr& filter : filters) {
    const auto again = restored(payload_of(filter));
    REQUIRE(again);
    CHECK((*again)->kind() == value::Kind::window);
    CHECK(value::image_of(**again) == value::image_of(*filter));
  }
}

TEST_CASE("a payload that no filter that forgets has is refused") {
  const value::ValuePtr filter = forgetting(100, 60'000, 50);
  const auto code_of = [](const std::string& payload, const value::Limits& limits = window_limits) {
    const auto made = restored(payload, limits);
    REQUIRE(!made);
    return made.error().code;
  };
  const auto image = value::image_of(*filter);
  const std::string whole(reinterpret_cast<const char*>(image.data()), image.size());
  const std::size_t head_bytes = window_row.read_head(image, 64)->head_bytes;
  const std::string head = whole.substr(0, head_bytes);
  const std::string body = whole.substr(head_bytes);
  CHECK(restored(payload_with(head, body)));
  std::string broken = payload_of(filter);
  broken[broken.size() / 2] ^= 1;
  CHECK(code_of(broken) == Errc::damaged);
  CHECK(code_of(payload_with(head + '\0', body)) == Errc::out_of_range);
  CHECK(code_of(payload_with(head, body.substr(8))) == Errc::out_of_range);
  // A later version of Sepal has written it: no row knows it, and that of Bloom filters says so.
  CHECK(code_of(payload_with(head, body, sepal_encoding + 1)) == Errc::out_of_range);
  CHECK(code_of(payload_of(filter), {.bytes_max = 100, .layers_max = 64}) == Errc::too_large);
}

TEST_CASE("what sepal.so emits of a filter that forgets for an AOF makes the same filter") {
  std::string emitted;
  const value::ValuePtr filter = forgetting(100, 60'000, 3000);
  window_row.payload->type->give_pieces(
      *filter, [&](const char* command, std::uint64_t iterator, std::span<const std::byte> piece) {
        CHECK(std::string(command) == "RESTORE");
        CHECK(iterator == 0);
        emitted.append(reinterpret_cast<const char*>(piece.data()), piece.size());
      });
  CHECK(emitted == payload_of(filter));
  const auto again = restored(emitted);
  REQUIRE(again);
  CHECK(value::image_of(**again) == value::image_of(*filter));
}

}  // namespace window_payload_test
