// Users, rules and permissions, without a server.
#include <sepal/base/digest.hpp>
#include <sepal/command/table/command_table.hpp>
#include <sepal/command/users/acl_user.hpp>

#include "support/catch.hpp"

namespace acl_user_test {

using sepal::sha256_hex;
using sepal::command::command_table;
using sepal::command::Denial;
using sepal::command::denial_text;
using sepal::command::denial_text_in_full;
using sepal::command::row_for;
using sepal::command::User;

namespace {

using Words = std::vector<std::string_view>;

std::string apply(User& user, const Words& rules) {
  return user.apply(rules);
}

User user_with(const Words& rules) {
  User user("bob");
  const std::string wrong = user.apply(rules);
  INFO(wrong);
  REQUIRE(wrong.empty());
  return user;
}

// "yes", "command", or "key N" with the index of the key.
std::string asked(const User& user, const Words& words) {
  const auto denial = user.denied(*row_for(words), words);
  if (!denial) return "yes";
  return denial->reason == Denial::Reason::command ? "command" : "key " + std::to_string(denial->word);
}

std::string error_of(const Words& rules) {
  User user("bob");
  return user.apply(rules);
}

}  // namespace

TEST_CASE("a new user may do nothing but log in") {
  const User user("bob");
  CHECK(user.rules() == "off sanitize-payload resetchannels -@all");
  CHECK(asked(user, {"PING"}) == "command");
  CHECK(asked(user, {"AUTH", "a", "b"}) == "yes");
  CHECK(asked(user, {"HELLO"}) == "yes");
  CHECK(asked(user, {"RESET"}) == "yes");
  CHECK_FALSE(user.accepts(""));
  CHECK(asked(User::without_rights(), {"PING"}) == "command");
}

TEST_CASE("rules read back as they were applied") {
  const auto rules = [](const Words& words) { return user_with(words).rules(); };
  CHECK(rules({"on", "nopass", "~*", "&*", "+@all"}) == "on nopass sanitize-payload ~* &* +@all");
  CHECK(rules({"ON", "AllKeys", "allchannels", "allcommands"}) == "on sanitize-payload ~* &* +@all");
  CHECK(rules({"~a:*", "%R~b:*", "%w~c", "%RW~d", "%R~a:*"}) ==
        "off sanitize-payload ~a:* %R~b:* %W~c ~d resetchannels -@all");
  CHECK(rules({"%R~b", "%W~b"}) == "off sanitize-payload ~b resetchannels -@all");
  CHECK(rules({"&news", "&x:*", "&news"}) == "off sanitize-payload resetchannels &news &x:* -@all");
  CHECK(rules({"+@all", "-@Dangerous", "-BF.ADD"}) ==
        "off sanitize-payload resetchannels +@all -@dangerous -bf.add");
  CHECK(rules({"+bf.add", "-bf.add"}) == "off sanitize-payload resetchannels -@all -bf.add");
  CHECK(rules({"+config|get", "+config", "-config|set"}) ==
        "off sanitize-payload resetchannels -@all +config -config|set");
  CHECK(rules({"+select|0", "+select|1"}) == "off sanitize-payload resetchannels -@all +select|0 +select|1");
  CHECK(rules({"+@all", "~x", "reset"}) == "off sanitize-payload resetchannels -@all");
  CHECK(rules({"skip-sanitize-payload"}) == "off skip-sanitize-payload resetchannels -@all");
  CHECK(rules({"(~x +ping)", "(%R~y", "+bf.exists)"}) ==
        "off sanitize-payload resetchannels -@all (~x resetchannels -@all +ping) (%R~y resetchannels -@all "
        "+bf.exists)");
  CHECK(rules({"(~x)", "clearselectors"}) == "off sanitize-payload resetchannels -@all");
  CHECK(rules({">pw"}) == "off sanitize-payload #" + sha256_hex("pw") + " resetchannels -@all");
}

TEST_CASE("the text of a user's rules makes an equal user") {
  const User user = user_with({"on", ">one", ">two", "~a*", "%R~b", "&c", "+@read", "-bf.exists",
                               "+client|id", "+select|0", "(~d +@all -@admin)", "(%W~e allchannels)"});
  const std::string text = user.rules();
  std::vector<std::string_view> words;
  for (std::string_view rest = text; !rest.empty();) {
    words.push_back(rest.substr(0, rest.find(' ')));
    rest.remove_prefix(std::min(words.back().size() + 1, rest.size()));
  }
  CHECK(user_with(words).rules() == text);
}

TEST_CASE("wrong rules are refused with the reference's texts") {
  const std::string unknown = "Unknown command or category name in ACL";
  const auto modifier = [](const std::string& rule, const std::string& why) {
    return "Error in ACL SETUSER modifier '" + rule + "': " + why;
  };
  for (const char* rule : {"foo", "%X~a", "%~a", "%R", "%RR~a", "~a b", "+select|", "&a b", ""})
    CHECK(error_of({rule}) == modifier(rule, "Syntax error"));
  for (const char* rule :
       {"+nosuch", "-nosuch", "+@nosuch", "-@", "+config|nosuch", "-select|0", "+nosuch|x"})
    CHECK(error_of({rule}) == modifier(rule, unknown));
  CHECK(error_of({"+config|get|x"}) ==
        modifier("+config|get|x", "Allowing first-arg of a subcommand is not supported"));
  CHECK(error_of({"~*", "~a"}).find("Adding a pattern after the * pattern (or the 'allkeys' flag)") !=
        std::string::npos);
  CHECK(error_of({"&*", "&a"}).find("Adding a pattern after the * pattern (or the 'allchannels' flag)") !=
        std::string::npos);
  CHECK(error_of({"(~a", "+ping"}) == "Unmatched parenthesis in acl selector starting at '(~a'.");
  CHECK(error_of({"(~a nonsense)"}) == modifier("(~a nonsense)", "Syntax error"));
}

TEST_CASE("no password is in an error") {
  for (const char* rule : {"<sesame", "#sesame", "!sesame", "(>sesame)"}) {
    const std::string error = error_of({rule});
    CHECK_FALSE(error.empty());
    CHECK(error.find("sesame") == std::string::npos);
  }
  CHECK(error_of({"<sesame"}) ==
        "Error in ACL SETUSER modifier '<(hidden)': The password you are trying to remove from the user does "
        "not exist");
}

TEST_CASE("all rules have effect, or none") {
  User user = user_with({"on", ">pw", "~a", "+ping"});
  const std::string before = user.rules();
  CHECK_FALSE(apply(user, {"off", "resetpass", "+@all", "~*", "nonsense"}).empty());
  CHECK(user.rules() == before);
  CHECK_FALSE(user.unrestricted());
  CHECK(user.accepts("pw"));
}

TEST_CASE("passwords are added, removed and compared as digests") {
  const std::string second = "#" + sha256_hex("two");
  User user = user_with({"on", ">one", second});
  CHECK(user.accepts("one"));
  CHECK(user.accepts("two"));
  CHECK_FALSE(user.accepts("three"));
  CHECK_FALSE(user.accepts(""));
  CHECK(apply(user, {"<one"}).empty());
  CHECK_FALSE(user.accepts("one"));
  const std::string digest = "!" + sha256_hex("two");
  CHECK(apply(user, {digest}).empty());
  CHECK_FALSE(user.accepts("two"));
  CHECK(user.needs_password());
  CHECK(apply(user, {"nopass"}).empty());
  CHECK(user.accepts("anything"));
  CHECK(apply(user, {">pw"}).empty());
  CHECK_FALSE(user.accepts("anything"));
  CHECK(apply(user, {"off"}).empty());
  CHECK_FALSE(user.accepts("pw"));
  const std::string upper = "#" + std::string(64, 'A');
  CHECK_FALSE(apply(user, {upper}).empty());
}

TEST_CASE("a command is allowed by its name, its category, or its first argument") {
  const User reader = user_with({"~*", "+@read", "-bf.info", "+client|id", "+select|0"});
  CHECK(asked(reader, {"BF.EXISTS", "k", "i"}) == "yes");
  CHECK(asked(reader, {"BF.ADD", "k", "i"}) == "command");
  CHECK(asked(reader, {"BF.INFO", "k"}) == "command");
  CHECK(asked(reader, {"CLIENT", "ID"}) == "yes");
  CHECK(asked(reader, {"CLIENT", "LIST"}) == "command");
  CHECK(asked(reader, {"SELECT", "0"}) == "yes");
  CHECK(asked(reader, {"SELECT", "1"}) == "command");
  const User no_set = user_with({"+@all", "-config|set"});
  CHECK(asked(no_set, {"CONFIG", "GET", "port"}) == "yes");
  CHECK(asked(no_set, {"CONFIG", "SET", "port", "1"}) == "command");
  CHECK(asked(user_with({"+select|0", "-select"}), {"SELECT", "0"}) == "command");
}

TEST_CASE("each key of a request must match a pattern") {
  const User user = user_with({"~app:*", "+@all"});
  CHECK(asked(user, {"BF.ADD", "app:1", "i"}) == "yes");
  CHECK(asked(user, {"BF.ADD", "other", "i"}) == "key 1");
  CHECK(asked(user, {"DEL", "app:1", "app:2", "other"}) == "key 3");
  CHECK(asked(user, {"RENAME", "app:1", "other"}) == "key 2");
  CHECK(asked(user, {"MEMORY", "USAGE", "other"}) == "key 2");
  CHECK(asked(user, {"PING"}) == "yes");
  CHECK(asked(user, {"BF.MIRROR", "app:1", "OFF"}) == "yes");
  CHECK(asked(user, {"BF.MIRROR", "app:1", "commit", "force"}) == "yes");
  CHECK(asked(user, {"BF.MIRROR", "app:1", "abort"}) == "yes");
  CHECK(asked(user, {"BF.MIRROR", "app:1", "other"}) == "key 2");
  // Where the command takes no such option, the word is the name of a target.
  CHECK(asked(user, {"BF.MIRROR", "app:1", "FORCE"}) == "key 2");
  CHECK(asked(user, {"BF.MIRROR", "app:1", "OFF", "FORCE"}) == "key 2");
  CHECK(asked(user_with({"+@all"}), {"BF.ADD", "k", "i"}) == "key 1");
}

TEST_CASE("a pattern may allow only to read, or only to write") {
  const User reads = user_with({"%R~k", "+@all"});
  const User writes = user_with({"%W~k", "+@all"});
  const User both = user_with({"%R~k", "%W~k", "+@all"});
  const std::vector<Words> reading{{"BF.EXISTS", "k", "i"},
                                   {"BF.MEXISTS", "k", "i"},
                                   {"BF.INFO", "k"},
                                   {"BF.CARD", "k"},
                                   {"BF.SCANDUMP", "k", "0"},
                                   {"DUMP", "k"},
                                   {"BF.DEBUG", "k"},
                                   {"BF.MIRROR", "k"},
                                   {"GET", "k"},
                                   {"BITFIELD", "k", "GET", "u8", "0"}};
  const std::vector<Words> writing{{"BF.ADD", "k", "i"},
                                   {"BF.MADD", "k", "i"},
                                   {"BF.INSERT", "k", "ITEMS", "i"},
                                   {"BF.RESERVE", "k", "0.1", "9"},
                                   {"BF.LOADCHUNK", "k", "1", "x"},
                                   {"DEL", "k"},
                                   {"EXPIRE", "k", "1"},
                                   {"SET", "k", "x"},
                                   {"RESTORE", "k", "0", "x"}};
  for (const Words& words : reading) {
    INFO(words[0]);
    CHECK(asked(reads, words) == "yes");
    CHECK(asked(writes, words) == "key 1");
    CHECK(asked(both, words) == "yes");
  }
  for (const Words& words : writing) {
    INFO(words[0]);
    CHECK(asked(reads, words) == "key 1");
    CHECK(asked(writes, words) == "yes");
    CHECK(asked(both, words) == "yes");
  }
  for (const Words& words :
       {Words{"SET", "k", "x", "GET"}, Words{"BITFIELD", "k", "SET", "u8", "0", "1"}, Words{"GETEX", "k"},
        Words{"BF.MIRROR", "k", "OFF"}, Words{"BF.MIRROR", "k", "k"}}) {
    INFO(words[0]);
    CHECK(asked(reads, words) == "key 1");
    CHECK(asked(writes, words) == "key 1");
    CHECK(asked(both, words) == "yes");
  }
  // COPY reads one key and writes the other.
  const User copies = user_with({"%R~from", "%W~to", "+@all"});
  CHECK(asked(copies, {"COPY", "from", "to"}) == "yes");
  CHECK(asked(copies, {"COPY", "to", "from"}) == "key 1");
}

TEST_CASE("a request needs one selector that allows all of it") {
  const User user = user_with({"~a", "+bf.add", "(~b +bf.exists)"});
  CHECK(asked(user, {"BF.ADD", "a", "i"}) == "yes");
  CHECK(asked(user, {"BF.EXISTS", "b", "i"}) == "yes");
  CHECK(asked(user, {"BF.EXISTS", "a", "i"}) == "key 1");
  CHECK(asked(user, {"BF.ADD", "b", "i"}) == "key 1");
  CHECK(asked(user, {"PING"}) == "command");
}

TEST_CASE("a user is unrestricted exactly if it may run every command on every key") {
  CHECK(user_with({"~*", "+@all"}).unrestricted());
  CHECK(user_with({"(~* +@all)"}).unrestricted());
  CHECK_FALSE(user_with({"~*", "+@all", "-ping"}).unrestricted());
  CHECK(user_with({"~*", "+@all", "-ping", "+ping"}).unrestricted());
  CHECK_FALSE(user_with({"~a", "+@all"}).unrestricted());
  CHECK_FALSE(user_with({"~*", "+@all", "resetkeys"}).unrestricted());
}

TEST_CASE("the texts of denials are the reference's") {
  const User user("bob");
  const Words words{"BF.ADD", "k", "i"};
  const auto& spec = *row_for(words);
  CHECK(denial_text({}, user, spec) == "User bob has no permissions to run the 'bf.add' command");
  const Denial key{.reason = Denial::Reason::key, .word = 1};
  CHECK(denial_text(key, user, spec) == "No permissions to access a key");
  CHECK(denial_text_in_full(key, user, spec, words) == "User bob has no permissions to access the 'k' key");
}

TEST_CASE("rules have limits") {
  using namespace sepal::command;
  User user("bob");
  const std::string longest = "~" + std::string(acl_rule_bytes_max - 1, 'x');
  CHECK(apply(user, {longest}).empty());
  const std::string too_long = longest + "x";
  CHECK_FALSE(apply(user, {too_long}).empty());

  const std::string password = ">" + std::string(password_bytes_max, 'x');
  CHECK(apply(user, {password}).empty());
  const std::string longer_password = password + "x";
  CHECK_FALSE(apply(user, {longer_password}).empty());

  // The rules of one call.
  const std::string blank_rule = "on";
  std::vector<std::string_view> many(user_rules_bytes_max / (blank_rule.size() + 1), blank_rule);
  CHECK(user.apply(many).empty());
  many.push_back(blank_rule);
  CHECK_FALSE(user.apply(many).empty());

  // All patterns of a user.
  User full("eve");
  std::string wrong;
  std::size_t patterns = 0;
  for (; wrong.empty() && patterns < user_bytes_max; ++patterns) {
    const std::string rule = "~" + std::to_string(patterns);
    const std::string_view view = rule;
    wrong = full.apply(std::span(&view, 1));
  }
  CHECK(wrong.find("65536 bytes") != std::string::npos);
  CHECK(patterns > 100);
  CHECK(full.byte_count() <= User(full.name()).byte_count() + user_bytes_max);
}

}  // namespace acl_user_test
