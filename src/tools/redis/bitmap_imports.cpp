#include "tools/redis/bitmap_imports.hpp"

#include <sepal/base/glob.hpp>

#include <algorithm>

#include "tools/redis/remote_key.hpp"
#include "tools/shell/seed.hpp"
#include "tools/shell/text.hpp"

namespace sepal::tools {
namespace {

// What a sepald answers if a command names a key that is not there.
constexpr std::string_view absent_key_answer = "ERR no such key";

// The key is named twice: the filter gets the key of its bitmap, and REPLACE lets it take the string's place.
// The words of the rule are separated by blanks.
std::vector<std::string_view> request_of(const BitmapRule& rule, std::string_view key) {
  std::vector<std::string_view> words{"BF.IMPORTBITMAP", key, key, "REPLACE", "SCHEME"};
  std::string_view rest = rule.scheme;
  for (;;) {
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    if (rest.empty()) return words;
    const std::string_view word = rest.substr(0, rest.find(' '));
    words.push_back(word);
    rest.remove_prefix(word.size());
  }
}

}  // namespace

const BitmapRule* rule_for(std::span<const BitmapRule> rules, std::string_view key) {
  for (const BitmapRule& rule : rules)
    if (matches(rule.pattern, key)) return &rule;
  return nullptr;
}

// A server reads the words before it looks for the key. So a key that is not there shows whether the server
// accepts the words. The name is drawn at random, because the request would make a filter of a string that
// has this name.
Result<void> check_rules(RedisConnection& target, std::span<const BitmapRule> rules) {
  const std::string absent = format("sepal-migrate:%016llx", wide(drawn_seed()));
  for (const BitmapRule& rule : rules) {
    target.add(request_of(rule, absent));
    const auto reply = target.receive();
    if (!reply) return reply.error();
    const std::string_view text = reply->view().text();
    if (text == absent_key_answer) continue;
    return fail(Errc::out_of_range, "--bitmap '" + rule.pattern + "' '" + rule.scheme +
                                        "': the target says: " + readable_key(std::string(text)));
  }
  return {};
}

Result<std::uint64_t> import_bitmaps(
    RedisConnection& target, std::span<const BitmapRule> rules, std::span<const std::string> keys,
    const std::function<void(const std::string&, const std::string&)>& refuse) {
  for (const std::string& key : keys) target.add({"TYPE", key});
  std::vector<std::string> strings;
  for (const std::string& key : keys) {
    const auto type = target.receive();
    if (!type) return type.error();
    // REPLACE would replace a filter, too. A filter that is there already is left alone.
    if (type->view().text() == string_type) strings.push_back(key);
  }
  std::uint64_t count = 0;
  for (const std::string& key : strings) {
    const BitmapRule* const rule = rule_for(rules, key);
    target.add(request_of(*rule, key));
    const auto reply = target.receive();
    if (!reply) return reply.error();
    if (reply->view().is_error()) {
      refuse(key, "it stays a string: " + readable_key(std::string(reply->view().text())));
    } else {
      ++count;
    }
  }
  return count;
}

}  // namespace sepal::tools
