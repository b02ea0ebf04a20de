#include "tools/redis/migrate.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "tools/redis/bitmap_imports.hpp"
#include "tools/redis/filter_mover.hpp"
#include "tools/redis/redis_connection.hpp"
#include "tools/redis/remote_key.hpp"
#include "tools/redis/string_mover.hpp"
#include "tools/redis/tls_flags.hpp"
#include "tools/shell/text.hpp"

namespace sepal::tools {
namespace {

using keyspace::Deadline;

constexpr std::string_view scan_count = "512";
// A server runs the requests that it has received in one go, and its other clients wait meanwhile. These
// bounds keep that short.
constexpr std::size_t keys_at_once = 256;

class Migration {
 public:
  Migration(const MigrateRequest& request, Progress& progress) : request_(request), progress_(progress) {}

  Result<MigrateReport> run() {
    Result<void> done = connect();
    // The target reads the rules before anything is copied, so a wrong word moves nothing.
    if (done) done = check_rules(*target_, request_.bitmaps);
    if (done) done = find_databases();
    if (done) done = find_lacking();
    if (done) done = look();
    if (done) done = require_target_for_filters();
    if (done && !request_.only_report) done = copy();
    if (!done) return with_rights_advice(done.error());
    return std::move(report_);
  }

 private:
  using Keys = std::vector<std::string>;
  using RemoteKeys = std::vector<RemoteKey>;

  static Error with_rights_advice(const Error& error) {
    if (error.detail.find("NOPERM") == std::string::npos) return error;
    return fail(error.code,
                error.detail + "; docs/guides/moving-from-redisbloom.md has the rights that its user needs");
  }

  // Only these steps change the target. Their errors advise to run the command again, because the next run
  // copies only what is missing. After an earlier error there is nothing to go on with.
  Result<void> copy() {
    Result<void> done = move();
    if (done) done = check_samples();
    if (done && !request_.bitmaps.empty()) done = import();
    if (done) return done;
    return fail(done.error().code, done.error().detail + "; what was copied stays: run this again to go on");
  }

  // --- before ---------------------------------------------------------------------------------------------

  static Result<void> log_in(const RedisAddress& address, const std::string& password,
                             const tls::Context* tls, std::unique_ptr<RedisConnection>& server) {
    auto opened = RedisConnection::open(address, password, tls);
    if (!opened) return opened.error();
    server = std::move(*opened);
    // Without a password, open() sends nothing. This question shows early whether the server lets this client
    // in, and whether it speaks TLS.
    const auto answer = answer_of(*server, {"PING"});
    return answer ? Result<void>() : answer.error();
  }

  Result<void> connect() {
    // One set of TLS options serves both connections, so either address with TLS loads it.
    const auto tls = tls_for(request_.source.tls ? request_.source : request_.target, request_.tls);
    if (!tls) return tls.error();
    if (auto done = log_in(request_.source, request_.source_password, tls->get(), source_); !done)
      return with_login_advice(done.error(), source_variable, "the address of the source");
    if (auto done = log_in(request_.target, request_.target_password, tls->get(), target_); !done)
      return with_login_advice(done.error(), target_variable, "the address of the target");
    const auto source_how = deadline_question_of(*source_);
    if (!source_how) return source_how.error();
    const auto target_how = deadline_question_of(*target_);
    if (!target_how) return target_how.error();
    source_how_ = *source_how;
    target_how_ = *target_how;
    return {};
  }

  Result<void> find_databases() {
    const auto info = answer_of(*source_, {"INFO", "keyspace"});
    if (!info) return info.error();
    const auto only = request_.database ? request_.database : request_.source.database;
    // All databases of the source would end in one, where keys of the same name replace each other.
    if (request_.target.database && !only)
      return fail(Errc::out_of_range,
                  "the target's address names a database, and the source has several; name one of "
                  "the source, in its address or with --db");
    if (only) {
      const auto reply = source_->ask({"SELECT", std::to_string(*only)});
      if (!reply) return reply.error();
      if (reply->view().is_error())
        return fail(Errc::out_of_range, "the source refuses database " + std::to_string(*only) + ": " +
                                            readable_key(std::string(reply->view().text())));
    }
    for (const DatabaseSize& one : databases_in(info->view().text())) {
      if (only && *only != one.database) continue;
      databases_.push_back(one.database);
      key_count_ += one.key_count;
    }
    return refuse_itself();
  }

  // The target may have fewer databases than the source. The keys of those are told, and all others are
  // copied.
  Result<void> find_lacking() {
    for (const std::uint32_t number : databases_) {
      const std::string there = std::to_string(target_database(number));
      const auto reply = target_->ask({"SELECT", there});
      if (!reply) return reply.error();
      if (!reply->view().is_error()) continue;
      const std::string text =
          "the target refuses database " + there + ": " + readable_key(std::string(reply->view().text()));
      if (request_.target.database) return fail(Errc::out_of_range, text);
      lacking_[number] = text;
    }
    std::erase_if(databases_, [this](std::uint32_t number) { return lacking_.contains(number); });
    return {};
  }

  [[nodiscard]] std::uint32_t target_database(std::uint32_t database) const {
    return request_.target.database.value_or(database);
  }

  // A server draws its run_id at each start. So two addresses of one server are recognised, which their texts
  // do not show. Moving from one database of a server to another is allowed.
  Result<void> refuse_itself() {
    const auto source = answer_of(*source_, {"INFO", "server"});
    if (!source) return source.error();
    const auto target = answer_of(*target_, {"INFO", "server"});
    if (!target) return target.error();
    // A server that is no sepald answers nothing.
    const auto sepal = answer_of(*source_, {"INFO", "sepal"});
    if (!sepal) return sepal.error();
    const std::string mirrors = field_of(sepal->view().text(), "\nmirrors");
    report_.source_has_mirrors = !mirrors.empty() && mirrors != "0";
    report_.source_in_cluster = field_of(source->view().text(), "redis_mode") == "cluster";
    const std::string run_id = field_of(source->view().text(), "run_id");
    const bool one_server = !run_id.empty() && run_id == field_of(target->view().text(), "run_id");
    const bool one_place = std::ranges::any_of(
        databases_, [this](std::uint32_t database) { return database == target_database(database); });
    if (one_server && one_place)
      return fail(Errc::out_of_range, "source and target are the same server and the same database");
    return {};
  }

  [[nodiscard]] DeadlineQuestion deadline_question() const {
    return source_how_ == target_how_ ? source_how_ : DeadlineQuestion::relative;
  }

  // --- going through the source ---------------------------------------------------------------------------

  Result<void> select(std::uint32_t database) {
    if (auto done = select_source(database); !done) return done;
    const auto target = answer_of(*target_, {"SELECT", std::to_string(target_database(database))});
    return target ? Result<void>() : target.error();
  }

  Result<void> select_source(std::uint32_t database) {
    const auto source = answer_of(*source_, {"SELECT", std::to_string(database)});
    return source ? Result<void>() : source.error();
  }

  // Calls `work` with some keys at a time. SCAN may give a key twice. That does no harm: the second time, the
  // target has the key already.
  Result<void> for_each_keys(const std::function<Result<void>(std::span<const std::string>)>& work) {
    std::string cursor = "0";
    do {
      const auto reply = answer_of(*source_, {"SCAN", cursor, "MATCH", request_.match, "COUNT", scan_count});
      if (!reply) return reply.error();
      cursor = reply->view()[0].text();
      const ReplyView found = reply->view()[1];
      Keys keys;
      for (std::size_t i = 0; i < found.size(); ++i) keys.emplace_back(found[i].text());
      for (std::span<const std::string> rest = keys; !rest.empty();) {
        // COUNT is only a hint, so a reply may have more keys than should be asked about in one go.
        const auto some = rest.first(std::min(rest.size(), keys_at_once));
        if (auto done = work(some); !done) return done;
        rest = rest.subspan(some.size());
      }
    } while (cursor != "0");
    return {};
  }

  // Goes through all keys once, so that the progress knows how much there is.
  Result<void> look() {
    progress_.begin("looking", key_count_);
    Result<void> done;
    for (const std::uint32_t database : databases_)
      if (done) done = look_at(database, [this](const RemoteKey& key) { weigh(key); });
    for (const auto& [database, why] : lacking_)
      if (done) done = look_at(database, [&, text = why](const RemoteKey& key) { note_lacking(key, text); });
    progress_.end();
    report_.found_nothing = keys_seen_ == 0;
    for (const BitmapRule& rule : request_.bitmaps)
      if (!used_rules_.contains(&rule)) report_.unmatched_rules.push_back(rule);
    return done;
  }

  Result<void> look_at(std::uint32_t database, const std::function<void(const RemoteKey&)>& note) {
    database_ = database;
    if (auto done = select_source(database); !done) return done;
    return for_each_keys([&](std::span<const std::string> keys) -> Result<void> {
      const auto found = examine(*source_, keys, source_how_);
      if (!found) return found.error();
      std::ranges::for_each(*found, note);
      progress_.update(keys_seen_ += keys.size(), 0);
      return {};
    });
  }

  // sepald and Sepal's module take all filters. RedisBloom takes its own, and cannot read those of Sepal. A
  // server without filters takes strings only.
  Result<void> require_target_for_filters() {
    if (!has_filters_) return {};
    const auto has_none = lacks(*target_, "BF.LOADCHUNK");
    if (!has_none) return has_none.error();
    const auto source_is_sepal = is_sepal(*source_);
    if (!source_is_sepal) return source_is_sepal.error();
    const auto target_is_sepal = is_sepal(*target_);
    if (!target_is_sepal) return target_is_sepal.error();
    if (!*has_none && (*target_is_sepal || !*source_is_sepal)) return {};
    return fail(Errc::out_of_range,
                "the target " + target_->name() +
                    " is no sepald, and cannot take the filters of the source; are source and target in the "
                    "right order?");
  }

  // The command has no words, so it does nothing. COMMAND INFO would need one more right of the user. A user
  // that may not run the command gets another error, and the command is there.
  static Result<bool> lacks(RedisConnection& server, std::string_view command) {
    const auto reply = server.ask({command});
    if (!reply) return reply.error();
    return reply->view().is_error() && reply->view().text().starts_with("ERR unknown command");
  }

  // Whether it is a sepald, or has the module of Sepal. An older sepald has no filters with a window.
  static Result<bool> is_sepal(RedisConnection& server) {
    auto has_no_window = lacks(server, "BF.WINDOW");
    if (!has_no_window) return has_no_window.error();
    if (!*has_no_window) return true;
    const auto info = answer_of(server, {"INFO", "server"});
    if (!info) return info.error();
    return !field_of(info->view().text(), "sepal_version").empty();
  }

  void weigh(const RemoteKey& key) {
    has_filters_ = has_filters_ || key.is_filter;
    if (key.is_filter) total_weight_ += FilterMover::weight_of(key);
    if (key.is_string) total_weight_ += key.string_bytes;
    const BitmapRule* const rule = key.is_string ? rule_for(request_.bitmaps, key.key) : nullptr;
    if (rule != nullptr) used_rules_.insert(rule);
    if (!request_.only_report) return;
    if (key.is_filter) return FilterMover::count(key, report_.keys);
    if (!key.is_string) return note_left(key);
    ++report_.keys.strings;
    report_.keys.string_bytes += key.string_bytes;
    if (rule != nullptr) ++report_.bitmaps;
  }

  void note_lacking(const RemoteKey& key, const std::string& why) {
    if (key.is_filter || key.is_string) return report_.keys.refuse(why, database_, key.key);
    note_left(key);
  }

  // A key that is not copied, as it is neither a filter nor a string that the server tells about. A key that
  // was removed meanwhile is none of these.
  void note_left(const RemoteKey& key) {
    const bool is_gone = key.type == "none" || key.type == bloom_type || key.type == cuckoo_type ||
                         key.type == window_type || key.type == string_type;
    if (!key.refusal.empty()) return report_.keys.refuse(readable_key(key.refusal), database_, key.key);
    if (!is_gone) report_.keys.leave(key.type, database_, key.key);
  }

  // --- moving ---------------------------------------------------------------------------------------------

  Result<void> move() {
    progress_.begin("moving", total_weight_, "bytes");
    const MoveParts parts{.source = *source_,
                          .target = *target_,
                          .report = report_,
                          .how = deadline_question(),
                          .advance = [this](std::uint64_t weight) { advance(weight); },
                          .select = [this](std::uint32_t database) { return select(database); }};
    filters_.emplace(parts);
    strings_.emplace(parts);
    for (const std::uint32_t database : databases_) {
      if (auto done = select(database); !done) return done;
      database_ = database;
      auto done = for_each_keys([this](std::span<const std::string> keys) { return move_keys(keys); });
      if (!done) return done;
    }
    progress_.end();
    return {};
  }

  Result<void> move_keys(std::span<const std::string> keys) {
    // What look() has seen may be old by now, so the source is asked again.
    const auto found = examine(*source_, keys, source_how_);
    if (!found) return found.error();
    Keys names;
    RemoteKeys here;
    for (const RemoteKey& key : *found) {
      if (!key.is_filter && !key.is_string) {
        note_left(key);
        continue;
      }
      names.push_back(key.key);
      here.push_back(key);
    }
    const auto there = examine(*target_, names, target_how_);
    if (!there) return there.error();
    if (auto done = filters_->move(database_, here, *there); !done) return done;
    std::vector<StringPair> strings;
    for (std::size_t i = 0; i < here.size(); ++i) {
      if (!here[i].is_string) continue;
      // An earlier run has made a filter of this string. Items may have been added to it since, and an import
      // would replace them (decisions/0028).
      if ((*there)[i].is_filter && rule_for(request_.bitmaps, here[i].key) != nullptr) {
        ++report_.bitmaps_before;
        advance(here[i].string_bytes);
      } else {
        strings.push_back({.source = &here[i], .target = &(*there)[i]});
      }
    }
    return strings_->move(database_, strings);
  }

  void advance(std::uint64_t weight) {
    weight_done_ += weight;
    progress_.update(weight_done_, weight_done_);
  }

  // --- after ----------------------------------------------------------------------------------------------

  Result<void> check_samples() {
    progress_.begin("checking", filters_->sample_count() + strings_->sample_count());
    std::uint64_t done_count = 0;
    auto done = filters_->check([&] { progress_.update(++done_count, 0); });
    if (done) done = strings_->check();
    if (done) progress_.end();
    return done;
  }

  // Imports keys that are strings at both servers. If the source has another value under the key, this run
  // has not copied the target's string.
  Result<void> import() {
    for (const std::uint32_t database : databases_) {
      if (auto done = select(database); !done) return done;
      auto done = for_each_keys([&](std::span<const std::string> keys) -> Result<void> {
        Keys matching;
        for (const std::string& key : keys)
          if (rule_for(request_.bitmaps, key) != nullptr) matching.push_back(key);
        const auto found = examine(*source_, matching, source_how_);
        if (!found) return found.error();
        Keys strings;
        for (const RemoteKey& key : *found)
          if (key.is_string) strings.push_back(key.key);
        const auto count = import_bitmaps(
            *target_, request_.bitmaps, strings,
            [&](const std::string& key, const std::string& why) { report_.keys.refuse(why, database, key); });
        if (!count) return count.error();
        report_.bitmaps += *count;
        return {};
      });
      if (!done) return done;
    }
    return {};
  }

  const MigrateRequest& request_;
  Progress& progress_;
  std::unique_ptr<RedisConnection> source_;
  std::unique_ptr<RedisConnection> target_;
  DeadlineQuestion source_how_ = DeadlineQuestion::absolute;
  DeadlineQuestion target_how_ = DeadlineQuestion::absolute;
  std::optional<FilterMover> filters_;
  std::optional<StringMover> strings_;
  std::vector<std::uint32_t> databases_;          // those that both have
  std::map<std::uint32_t, std::string> lacking_;  // those that the target lacks, and its words
  std::set<const BitmapRule*> used_rules_;
  bool has_filters_ = false;
  std::uint32_t database_ = 0;
  std::uint64_t key_count_ = 0;
  std::uint64_t keys_seen_ = 0;
  std::uint64_t total_weight_ = 0;
  std::uint64_t weight_done_ = 0;
  MigrateReport report_;
};

}  // namespace

Result<MigrateReport> migrate(const MigrateRequest& request, Progress& progress) {
  return Migration(request, progress).run();
}

}  // namespace sepal::tools
