#include "toy.hpp"

#include <sepal/base/endian.hpp>
#include <sepal/bloom/filter/kind.hpp>

#include <algorithm>
#include <array>
#include <cstring>

namespace sepal::toy {
namespace {

using value::FrozenView;
using value::ValuePtr;

// head: "TOYS", 4 members, 8 bytes of the body. body: for each member its length (1) and its bytes; zeros up
// to a multiple of 8.
constexpr std::string_view magic = "TOYS";
constexpr std::size_t head_bytes = 16;

struct HeldBody final : value::Still {
  std::vector<std::byte> bytes;
  std::uint32_t member_count = 0;
};

const Toy& toy_in(const value::Value& value) {
  return static_cast<const Toy&>(value);
}
const HeldBody& held_in(const FrozenView& frozen) {
  return static_cast<const HeldBody&>(*frozen.still);
}
std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::unique_ptr<value::Still> freeze(const value::Value& value, std::vector<std::uint64_t>& /*numbers*/) {
  auto held = std::make_unique<HeldBody>();
  for (const std::string& member : toy_in(value).members()) {
    held->bytes.push_back(static_cast<std::byte>(member.size()));
    for (const char letter : member) held->bytes.push_back(static_cast<std::byte>(letter));
  }
  held->bytes.resize((held->bytes.size() + 7) / 8 * 8);
  held->member_count = static_cast<std::uint32_t>(toy_in(value).members().size());
  return held;
}

bool begins_image(std::span<const std::byte> bytes) {
  return text_of(bytes).starts_with(magic);
}

Result<value::Shape> read_head(std::span<const std::byte> bytes, std::uint32_t /*layers_max*/) {
  if (bytes.size() < head_bytes) return fail(Errc::damaged, "a toy's head is cut short");
  const auto body_bytes = load_little_endian<std::uint64_t>(bytes.data() + 8);
  if (body_bytes % 8 != 0 || body_bytes > 8 + members_max * (1 + member_bytes_max))
    return fail(Errc::damaged, "a toy's body is longer than one can be");
  return value::Shape{.head_bytes = head_bytes,
                      .body_bytes = body_bytes,
                      .item_count = load_little_endian<std::uint32_t>(bytes.data() + 4)};
}

Result<ValuePtr> make(std::span<const std::byte> head, const value::Limits& /*limits*/, value::FilledBy) {
  const auto shape = read_head(head, 0);
  if (!shape) return shape.error();
  auto* const toy = new Toy;
  toy->body.resize(shape->body_bytes);
  return ValuePtr(toy);
}

Result<void> complete(value::Value& value) {
  auto& toy = static_cast<Toy&>(value);
  std::string_view left = text_of(toy.body);
  while (!left.empty() && left.front() != '\0') {
    const auto length = static_cast<std::uint8_t>(left.front());
    if (left.size() <= length || !toy.change(learned, left.substr(1, length)))
      return fail(Errc::damaged, "a toy's members contradict it");
    left.remove_prefix(1 + length);
  }
  toy.body.clear();
  return {};
}

void encode_head(const FrozenView& frozen, std::span<std::byte> into) {
  std::memcpy(into.data(), magic.data(), magic.size());
  auto* const numbers = reinterpret_cast<unsigned char*>(into.data());
  store_little_endian(numbers + 4, held_in(frozen).member_count);
  store_little_endian(numbers + 8, std::uint64_t{held_in(frozen).bytes.size()});
}

Result<ValuePtr> apply(value::Value& value, std::uint8_t what, std::span<const std::byte> bytes,
                       const value::Limits& /*limits*/) {
  if (!static_cast<Toy&>(value).change(what, text_of(bytes)))
    return fail(Errc::out_of_range, "a toy cannot change so");
  return ValuePtr();
}

}  // namespace

bool Toy::change(std::uint8_t what, std::string_view member) {
  const bool fits = members_.size() < members_max && !member.empty() && member.size() <= member_bytes_max;
  const bool done = what == learned     ? fits && members_.emplace(member).second
                    : what == forgotten ? members_.erase(std::string(member)) != 0
                                        : false;
  changes_ += done ? 1 : 0;
  return done;
}

const value::KindRow toy_row{
    .kind = toy_kind,
    .type_name = "toy",
    .word = "toy",
    .destroy = [](value::Value* value) { delete static_cast<Toy*>(value); },
    .byte_count = [](const value::Value&) { return std::uint64_t{sizeof(Toy)}; },
    .item_count = [](const value::Value& value) { return std::uint64_t{toy_in(value).members().size()}; },
    .changes = [](const value::Value& value) { return toy_in(value).changes(); },
    .identity = [](const value::Value& value) { return toy_in(value).identity(); },
    .prepare = nullptr,
    .encoding = nullptr,
    .make_state = nullptr,
    .begins_image = begins_image,
    .read_head = read_head,
    .make = make,
    .fill_body =
        [](value::Value& value, std::uint64_t offset, std::span<const std::byte> from) {
          std::ranges::copy(from,
                            static_cast<Toy&>(value).body.begin() + static_cast<std::ptrdiff_t>(offset));
        },
    .complete = complete,
    .freeze = freeze,
    .head_bytes = [](const FrozenView&) { return head_bytes; },
    .body_bytes = [](const FrozenView& frozen) { return std::uint64_t{held_in(frozen).bytes.size()}; },
    .encode_head = encode_head,
    .copy_body =
        [](const FrozenView& frozen, std::uint64_t offset, std::span<std::byte> to) {
          std::ranges::copy(std::span(held_in(frozen).bytes).subspan(offset, to.size()), to.begin());
        },
    .repeat = value::Repeat::once,
    .made_by_change = false,
    .make_recorded = [](std::span<const std::byte>, const value::Limits&) -> Result<ValuePtr> {
      return ValuePtr(new Toy);
    },
    .apply = apply,
    .add = nullptr,
    .add_refused = "from here on entries are added to a toy, which takes none",
    .tell = [](const value::Value& value,
               value::Figures& to) { to.number("members", toy_in(value).members().size()); },
    .sentence =
        [](const value::Value& value) {
          return "a toy of " + std::to_string(toy_in(value).members().size()) + " members";
        },
    .tell_head = [](std::span<const std::byte>, value::Figures&) {},
    .tell_made = [](std::span<const std::byte>, value::Figures&) { return std::string_view("toy_made"); },
    .tell_changed =
        [](std::uint8_t what, std::span<const std::byte> bytes, value::Figures& to) {
          to.number("bytes", bytes.size());
          return std::string_view(what == learned ? "learned" : "forgotten");
        },
    .payload = nullptr,
    .clocked = nullptr,
    .mirrors = false,
};

}  // namespace sepal::toy

namespace sepal::value {
namespace {
constexpr std::array<const KindRow*, 3> all = {&bloom::bloom_row, &bloom::string_row, &toy::toy_row};
}  // namespace
constinit const std::span<const KindRow* const> kinds{all};
}  // namespace sepal::value
