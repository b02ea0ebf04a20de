// BF.IMPORTBITMAP: makes a filter of a string in which a client program kept a Bloom filter of its own. As
// for COPY, a small one is made at once, with the gate closed, and a large one by a job outside the workers.
//
// The bits do not tell their scheme, so the client has to (decisions/0030). Each scheme needs some numbers
// and knows the rest. A number too many is refused like one too few: it would be ignored, and the client
// would take it for true.
#include <sepal/base/arguments.hpp>
#include <sepal/bloom/commands/options.hpp>
#include <sepal/bloom/filter/image.hpp>
#include <sepal/bloom/foreign/client_bitmap.hpp>
#include <sepal/command/run/adoptions.hpp>
#include <sepal/command/run/context.hpp>
#include <sepal/command/table/error_texts.hpp>
#include <sepal/strings/string.hpp>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "command/keys/lookup.hpp"
#include "command/run/adopting.hpp"
#include "command/run/refuse.hpp"
#include "command/table/command_row.hpp"
#include "command/table/families.hpp"

namespace sepal::command {
namespace {

using keyspace::DatabaseKey;
using value::ValuePtr;

constexpr std::string_view guava_form = "guava";

struct BitmapRequest {
  bloom::ClientBitmap bitmap;
  const bloom::SchemeFacts* scheme = nullptr;  // null where the string is in Guava's form
  std::optional<std::uint64_t> bits;
  std::optional<std::uint64_t> hashes;
  std::optional<std::uint64_t> seed;
  bool has_scheme = false;
  bool replace = false;
};

// Empty if the word is a number in the range; else the error.
std::string_view parse_in(std::string_view word, std::uint64_t smallest, std::uint64_t largest,
                          std::string_view range, std::optional<std::uint64_t>& into) {
  into = parse_unsigned(word);
  return into && *into >= smallest && *into <= largest ? std::string_view() : range;
}

std::string parse_scheme(std::string_view word, BitmapRequest& request) {
  request.has_scheme = true;
  // Without a scheme the string is in Guava's form: this is how all that follows tells the two apart.
  request.scheme = nullptr;
  request.bitmap.form = bloom::BitmapForm::guava;
  if (equal_ignoring_case(word, guava_form)) return {};
  const auto is_named = [&](const bloom::SchemeFacts& facts) {
    return equal_ignoring_case(facts.name, word);
  };
  const auto all = bloom::schemes();
  const auto found = std::ranges::find_if(all, is_named);
  if (found == all.end()) return unknown_scheme();
  request.bitmap.form = bloom::BitmapForm::by_setbit;
  request.scheme = &*found;
  return {};
}

// One option and its value. The error; empty if there is none.
std::string parse_option(std::string_view option, std::string_view value, BitmapRequest& request) {
  const auto is = [&](std::string_view name) { return equal_ignoring_case(option, name); };
  if (is("SCHEME")) return parse_scheme(value, request);
  if (is("BITS"))
    return std::string(parse_in(value, 1, bloom::client_bits_max, text::bitmap_bits_range, request.bits));
  if (is("HASHES"))
    return std::string(
        parse_in(value, 1, bloom::client_probe_count_max, text::bitmap_hashes_range, request.hashes));
  if (is("SEED"))
    return std::string(
        parse_in(value, 0, std::numeric_limits<std::uint32_t>::max(), text::bitmap_seed_range, request.seed));
  if (is("CAPACITY")) return std::string(bloom::read_capacity(value, request.bitmap.capacity));
  if (is("ERROR")) return std::string(bloom::read_rate(value, request.bitmap.error_rate));
  if (is("EXPANSION")) {
    const auto wrong = bloom::read_expansion(value, request.bitmap.expansion);
    // The bitmap takes no items (filter/client_bitmap.hpp), so a filter that does not scale could not take
    // any.
    const bool is_zero = wrong.empty() && request.bitmap.expansion == 0;
    return std::string(is_zero || wrong == bloom::text::reserve_expansion_range ? text::bitmap_expansion_range
                                                                                : wrong);
  }
  return std::string(text::syntax);
}

// Whether the options are those of the scheme. The error; empty if they are.
std::string_view check_scheme(BitmapRequest& request) {
  if (!request.has_scheme || request.bitmap.capacity == 0) return text::bitmap_incomplete;
  const bool guava = request.scheme == nullptr;
  const std::uint32_t fixed = guava ? 0 : request.scheme->probe_count;
  // The head of Guava's form has all numbers. They are read when the gate is closed.
  if (request.bits.has_value() == guava) return guava ? text::bitmap_bits_known : text::bitmap_needs_bits;
  const bool needs_hashes = !guava && fixed == 0;
  if (request.hashes.has_value() != needs_hashes)
    return needs_hashes ? text::bitmap_needs_hashes : text::bitmap_hashes_known;
  if (request.seed && (guava || !request.scheme->seeded)) return text::bitmap_without_seed;
  if (guava) return {};
  request.bitmap.bits = {.scheme = request.scheme->scheme,
                         .bit_count = *request.bits,
                         .probe_count = static_cast<std::uint32_t>(request.hashes.value_or(fixed)),
                         .first_seed = static_cast<std::uint32_t>(request.seed.value_or(0))};
  return {};
}

// `words` follow the bitmap's key.
std::string parse(std::span<const std::string_view> words, BitmapRequest& request) {
  for (std::size_t at = 0; at < words.size(); ++at) {
    if (equal_ignoring_case(words[at], "REPLACE")) {
      request.replace = true;
      continue;
    }
    if (at + 1 == words.size()) return std::string(text::syntax);
    if (auto wrong = parse_option(words[at], words[at + 1], request); !wrong.empty()) return wrong;
    ++at;
  }
  return std::string(check_scheme(request));
}

void answer_import_bitmap(resp::Reply& reply, const Result<void>& outcome) {
  if (outcome) return reply.ok();
  // Both say that BITS is another number than the program's. Other wrong numbers cannot be seen.
  switch (outcome.error().code) {
    case Errc::out_of_range: return reply.error(text::bitmap_beyond_bits);
    case Errc::damaged: return reply.error(text::bitmap_ends_early);
    default: return answer_adoption(reply, outcome);
  }
}

std::uint64_t bytes_of(const bloom::ClientBitmap& bitmap) {
  constexpr std::uint64_t word_bits = 64;
  return (bitmap.bits.bit_count + word_bits - 1) / word_bits * (word_bits / 8);
}

class Bitmap final : public bloom::BitmapString {
 public:
  explicit Bitmap(const strings::String& string) : string_(string) {}
  [[nodiscard]] std::uint64_t length() const override { return string_.length(); }
  void read(std::uint64_t offset, std::span<std::byte> to) const override { string_.read(offset, to); }
  [[nodiscard]] bool has_bit_from(std::uint64_t position) const override {
    const strings::BitRange rest{.begin = position, .end = 8 * string_.length()};
    return rest.begin < rest.end && string_.find(true, rest).has_value();
  }

 private:
  const strings::String& string_;
};

// With the gate closed. The bitmap's key names `string`.
Next adopt_bitmap(Context& context, strings::StringPtr string, const bloom::ClientBitmap& bitmap,
                  Adoption adoption) {
  // The filter has one layer, so its image has this length, and adopt() can record it at once.
  if (bloom::image_bytes(1) + bytes_of(bitmap) <= keyspace::recorded_image_bytes_max) {
    auto made =
        bloom::filter_of_bitmap(Bitmap(*string), bitmap, context.services.keyspace.value_limits(), {});
    if (made) return adopt(context, std::move(*made), std::move(adoption));
    answer_import_bitmap(context.reply, made.error());
    return Next::done;
  }
  if (context.mode.in_transaction) return refuse(context, text::whole_in_transaction);
  adoption.make = [held = std::move(string), bitmap](const JobContext& job) -> Result<ValuePtr> {
    if (auto room = job.hold(bytes_of(bitmap)); !room) return room.error();
    return bloom::filter_of_bitmap(Bitmap(*held), bitmap, job.limits, job.go_on);
  };
  adoption.still_wanted = contents_stay(context, adoption.database);
  context.services.adoptions.adopt(context.client, std::move(adoption));
  return Next::wait;
}

Next bf_import_bitmap(Context& context) {
  const keyspace::Keyspace& keyspace = context.services.keyspace;
  BitmapRequest request;
  request.bitmap.error_rate = keyspace.options().error_rate;
  // The setting may be 0, for filters that do not scale. This filter has to.
  request.bitmap.expansion = std::max<std::uint32_t>(keyspace.options().expansion, 1);
  request.bitmap.seed = keyspace.options().seed;
  if (const auto wrong = parse(context.words.subspan(3), request); !wrong.empty())
    return refuse(context, wrong);
  const DatabaseKey key{.database = context.client.database, .key = context.words[1]};
  const DatabaseKey source{.database = context.client.database, .key = context.words[2]};
  const auto [string, refused] = find_or_refuse<strings::String>(context, source.key);
  if (refused) return Next::done;
  if (string == nullptr) return refuse(context, text::no_such_key);
  if (!request.replace && find(context, key.key) != nullptr) return refuse(context, text::filter_exists);
  if (!context.alone) return Next::need_alone;
  if (keyspace.is_target(key, context.now)) return refuse(context, text::target_of_mirror);
  if (request.scheme == nullptr) {
    const auto bits = bloom::bits_of_guava(Bitmap(*string));
    if (!bits) return refuse(context, text::bitmap_not_of_guava);
    request.bitmap.bits = *bits;
  }
  // The reference keeps the string: REPLACE may name its own key.
  return adopt_bitmap(context, strings::StringPtr(string), request.bitmap,
                      {.what = "import",
                       .database = key.database,
                       .key = std::string(key.key),
                       .deadline = keyspace.deadline(source),
                       .replace = request.replace,
                       .make = {},
                       .answer = answer_import_bitmap});
}

constexpr Family import_row{.group = "module",
                            .categories = Category::bloom | Category::write | Category::slow,
                            .flags = Flag::module | Flag::write | Flag::deny_oom,
                            .flags_imply_categories = false};

constexpr CommandSpec import_bitmap_family[] = {
    import_row(
        "bf.importbitmap key bitmap SCHEME scheme CAPACITY capacity [BITS bits] [HASHES hashes] [SEED seed] "
        "[ERROR error] [EXPANSION expansion] [REPLACE]",
        -7, "1.0.0", "Makes a filter of the bitmap in which a client program kept its own; Sepal's own",
        bf_import_bitmap, records_adoption, two_keys("OW update/RO access"),
        Cost{"O(N) where N is the size of the bitmap"}),
};

}  // namespace

constinit const Rows import_bitmap_rows = import_bitmap_family;

}  // namespace sepal::command
