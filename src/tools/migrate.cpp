#include "migrate.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "commands.hpp"
#include "redis_connection.hpp"
#include "remote_filter.hpp"
#include "text.hpp"

namespace sepal::tools {
namespace {

using keyspace::Deadline;

constexpr std::string_view scan_count = "512";
// A server runs the requests that it has received in one go. These bounds keep that short.
constexpr std::size_t keys_at_once = 256;
constexpr std::int64_t small_filter_bytes = 64 << 10;
constexpr std::int64_t dumped_at_once_bytes = 512 << 10;
// A key counts as so many bytes in the progress.
constexpr std::uint64_t key_weight = 512;
constexpr std::size_t samples_max = 64;
constexpr std::size_t questions_per_sample = 1000;
// Deadlines that are computed from remaining times differ by the way of the replies.
constexpr Deadline computed_deadline_tolerance = 1000;

struct Sample {
  std::uint32_t database = 0;
  std::string key;
  FilterFigures figures;
};

// What is to be done with a filter.
enum class Verdict : std::uint8_t { copy, same, deadline, conflict };

class Migration {
 public:
  Migration(const MigrateRequest& request, Progress& progress) : request_(request), progress_(progress) {}

  Result<MigrateReport> run() {
    Result<void> done = connect();
    if (done) done = find_databases();
    if (done) done = look();
    if (done && !request_.only_report) done = move();
    if (done && !request_.only_report) done = check_samples();
    if (!done) return done.error();
    return std::move(report_);
  }

 private:
  using Keys = std::vector<std::string>;
  using Filters = std::vector<RemoteFilter>;

  // --- before ---------------------------------------------------------------------------------------------

  Result<void> connect() {
    auto source = RedisConnection::open(request_.source, request_.source_password);
    if (!source) return source.error();
    source_ = std::move(*source);
    auto target = RedisConnection::open(request_.target, request_.target_password);
    if (!target) return target.error();
    target_ = std::move(*target);
    for (RedisConnection* server : {source_.get(), target_.get()}) {
      const auto answer = answer_of(*server, {"PING"});
      if (!answer) return answer.error();
    }
    const auto told = source_->ask({"PEXPIRETIME", "a key"});
    if (!told) return told.error();
    if (told->view().is_error()) how_ = DeadlineQuestion::relative;
    return {};
  }

  // A reply that is no error.
  static Result<RedisReply> answer_of(RedisConnection& server,
                                      std::initializer_list<std::string_view> words) {
    auto reply = server.ask(words);
    if (reply && reply->view().is_error())
      return fail(Errc::io, server.name() + ": " + std::string(*words.begin()) +
                                " was answered: " + std::string(reply->view().text()));
    return reply;
  }

  static std::string field_of(std::string_view info, const std::string& name) {
    const std::size_t at = info.find(name + ":");
    if (at == std::string_view::npos) return "";
    const std::string_view rest = info.substr(at + name.size() + 1);
    return std::string(rest.substr(0, rest.find('\r')));
  }

  // Which databases have keys, and how many. INFO tells them in lines "db0:keys=5,...".
  Result<void> find_databases() {
    const auto info = answer_of(*source_, {"INFO", "keyspace"});
    if (!info) return info.error();
    const auto only = request_.database ? request_.database : request_.source.database;
    if (request_.target.database && !only)
      return fail(Errc::out_of_range,
                  "the target's address names a database, and the source has several; name one of "
                  "the source, in its address or with --db");
    constexpr std::uint32_t numbers_max = 1 << 16;
    for (std::uint32_t number = 0; number < numbers_max; ++number) {
      const std::string keys = field_of(info->view().text(), "\ndb" + std::to_string(number));
      if (keys.empty() || (only && *only != number)) continue;
      databases_.push_back(number);
      key_count_ += std::strtoull(keys.c_str() + std::string_view("keys=").size(), nullptr, 10);
    }
    return refuse_itself();
  }

  [[nodiscard]] std::uint32_t target_database(std::uint32_t database) const {
    return request_.target.database.value_or(database);
  }

  Result<void> refuse_itself() {
    const auto source = answer_of(*source_, {"INFO", "server"});
    if (!source) return source.error();
    const auto target = answer_of(*target_, {"INFO", "server"});
    if (!target) return target.error();
    const std::string run_id = field_of(source->view().text(), "run_id");
    const bool one_server = !run_id.empty() && run_id == field_of(target->view().text(), "run_id");
    const bool one_place = std::ranges::any_of(
        databases_, [this](std::uint32_t database) { return database == target_database(database); });
    if (one_server && one_place)
      return fail(Errc::out_of_range, "source and target are the same server and the same database");
    return {};
  }

  // --- going through the source ---------------------------------------------------------------------------

  Result<void> select(std::uint32_t database) {
    const auto source = answer_of(*source_, {"SELECT", std::to_string(database)});
    if (!source) return source.error();
    const auto target = answer_of(*target_, {"SELECT", std::to_string(target_database(database))});
    return target ? Result<void>() : target.error();
  }

  // Calls `work` with some keys at a time. SCAN may give a key twice.
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
        const auto some = rest.first(std::min(rest.size(), keys_at_once));
        if (auto done = work(some); !done) return done;
        rest = rest.subspan(some.size());
      }
    } while (cursor != "0");
    return {};
  }

  static Result<Filters> examine(RedisConnection& server, std::span<const std::string> keys,
                                 DeadlineQuestion how) {
    for (const std::string& key : keys) add_questions(server, key, how);
    Filters filters;
    for (const std::string& key : keys) {
      auto filter = receive_answers(server, key, how);
      if (!filter) return filter.error();
      filters.push_back(std::move(*filter));
    }
    return filters;
  }

  // Goes through all keys once, so that the progress knows how much there is.
  Result<void> look() {
    progress_.begin("looking", key_count_);
    for (const std::uint32_t database : databases_) {
      if (auto done = select(database); !done) return done;
      auto done = for_each_keys([&](std::span<const std::string> keys) -> Result<void> {
        const auto filters = examine(*source_, keys, how_);
        if (!filters) return filters.error();
        for (const RemoteFilter& filter : *filters) note(database, filter);
        progress_.update(keys_seen_ += keys.size(), 0);
        return {};
      });
      if (!done) return done;
    }
    progress_.end();
    return {};
  }

  void note(std::uint32_t database, const RemoteFilter& filter) {
    if (filter.there) {
      total_weight_ += weight_of(filter);
      if (request_.only_report) count_copied(filter);
    } else if (filter.type == filter_type) {
      report_.keys.refuse("the server tells nothing about it", database, filter.key);
    } else if (filter.type != "none") {
      // A rule that says how a program hashes could make a filter of a string.
      ++report_.keys.others["of type " + filter.type];
    }
  }

  static std::uint64_t weight_of(const RemoteFilter& filter) {
    return key_weight + static_cast<std::uint64_t>(std::max<std::int64_t>(0, filter.figures.bytes));
  }

  void count_copied(const RemoteFilter& filter) {
    ++report_.keys.filters;
    report_.keys.items += static_cast<std::uint64_t>(std::max<std::int64_t>(0, filter.figures.items));
    report_.keys.bytes += static_cast<std::uint64_t>(std::max<std::int64_t>(0, filter.figures.bytes));
  }

  // --- moving ---------------------------------------------------------------------------------------------

  Result<void> move() {
    progress_.begin("moving", total_weight_, "bytes");
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
    const auto found = examine(*source_, keys, how_);
    if (!found) return found.error();
    Keys names;
    Filters filters;
    for (const RemoteFilter& filter : *found) {
      if (!filter.there) continue;
      names.push_back(filter.key);
      filters.push_back(filter);
    }
    const auto there = examine(*target_, names, DeadlineQuestion::absolute);
    if (!there) return there.error();
    std::vector<const RemoteFilter*> small;
    std::int64_t small_bytes = 0;
    for (std::size_t i = 0; i < filters.size(); ++i) {
      const auto differs = settle(filters[i], (*there)[i]);
      if (!differs) return differs.error();
      if (!*differs) continue;
      if (filters[i].figures.bytes > small_filter_bytes) {
        if (auto done = copy_large(filters[i]); !done) return done;
        continue;
      }
      small.push_back(&filters[i]);
      small_bytes += filters[i].figures.bytes;
      if (small_bytes < dumped_at_once_bytes) continue;
      if (auto done = copy_small(small); !done) return done;
      small.clear();
      small_bytes = 0;
    }
    return copy_small(small);
  }

  [[nodiscard]] bool same_deadline(const RemoteFilter& source, const RemoteFilter& target) const {
    if (source.deadline == target.deadline) return true;
    return how_ == DeadlineQuestion::relative && source.deadline != 0 && target.deadline != 0 &&
           std::abs(source.deadline - target.deadline) <= computed_deadline_tolerance;
  }

  [[nodiscard]] Verdict verdict(const RemoteFilter& source, const RemoteFilter& target) const {
    if (!target.there) return target.type == "none" ? Verdict::copy : Verdict::conflict;
    if (source.figures.alike(target.figures))
      return same_deadline(source, target) ? Verdict::same : Verdict::deadline;
    return target.figures.items > source.figures.items ? Verdict::conflict : Verdict::copy;
  }

  // False: there is nothing to copy.
  Result<bool> settle(const RemoteFilter& source, const RemoteFilter& target) {
    const Verdict what = verdict(source, target);
    if (what == Verdict::copy) return true;
    advance(weight_of(source));
    if (what == Verdict::conflict) {
      refuse(source, target.there ? "the target's filter has more items, so it is left alone"
                                  : "the target has another value under its key");
      return false;
    }
    ++report_.same;
    if (what == Verdict::deadline) {
      ++report_.deadlines;
      if (auto done = set_deadline(source); !done) return done.error();
    }
    sample(source);
    return false;
  }

  Result<void> set_deadline(const RemoteFilter& filter) {
    const auto reply = filter.deadline == keyspace::no_deadline
                           ? answer_of(*target_, {"PERSIST", filter.key})
                           : answer_of(*target_, {"PEXPIREAT", filter.key, std::to_string(filter.deadline)});
    return reply ? Result<void>() : reply.error();
  }

  void refuse(const RemoteFilter& filter, const std::string& why) {
    // A server's words go to a terminal.
    report_.keys.refuse(readable_key(why), database_, filter.key);
  }

  void advance(std::uint64_t weight) {
    weight_done_ += weight;
    progress_.update(weight_done_, weight_done_);
  }

  Result<void> copy_small(std::span<const RemoteFilter* const> filters) {
    for (const RemoteFilter* filter : filters) source_->add({"DUMP", filter->key});
    std::vector<const RemoteFilter*> sent;
    for (const RemoteFilter* filter : filters) {
      const auto dump = source_->receive();
      if (!dump) return dump.error();
      if (dump->view().is_error()) {
        refuse(*filter, std::string(dump->view().text()));
      } else if (dump->view().is_null()) {
        ++report_.keys.others["gone before they were copied"];
      } else {
        target_->add({"RESTORE", filter->key, std::to_string(filter->deadline), dump->view().text(),
                      "REPLACE", "ABSTTL"});
        target_->add({"BF.INFO", filter->key});
        sent.push_back(filter);
      }
    }
    for (const RemoteFilter* filter : sent) {
      const auto restored = target_->receive();
      if (!restored) return restored.error();
      const auto info = target_->receive();
      if (!info) return info.error();
      arrived(*filter, restored->view(), info->view());
    }
    for (const RemoteFilter* filter : filters) advance(weight_of(*filter));
    return {};
  }

  // What the target has is compared with what the source had before.
  void arrived(const RemoteFilter& filter, ReplyView stored, ReplyView info) {
    if (stored.is_error()) return refuse(filter, std::string(stored.text()));
    const bool past = filter.deadline != keyspace::no_deadline && info.is_error();
    if (past) return static_cast<void>(++report_.keys.others["past their deadline"]);
    if (figures_of(info).items < filter.figures.items) return refuse(filter, "it arrived with fewer items");
    count_copied(filter);
    sample(filter);
  }

  Result<void> copy_large(const RemoteFilter& filter) {
    const auto refused = copy_pieces(filter);
    if (!refused) return refused.error();
    if (!refused->empty()) {
      refuse(filter, *refused);
      return {};
    }
    if (filter.deadline != keyspace::no_deadline) {
      if (auto done = set_deadline(filter); !done) return done;
    }
    const auto info = target_->ask({"BF.INFO", filter.key});
    if (!info) return info.error();
    arrived(filter, ReplyView(nullptr), info->view());
    return {};
  }

  // Returns why the filter was not copied; empty: it was. While the target stores a piece, the source makes
  // the next one.
  Result<std::string> copy_pieces(const RemoteFilter& filter) {
    advance(key_weight);
    auto piece = source_->ask({"BF.SCANDUMP", filter.key, "0"});
    for (;;) {
      if (!piece) return piece.error();
      if (piece->view().is_error()) return std::string(piece->view().text());
      const std::int64_t iterator = piece->view()[0].number();
      if (iterator == 0) return std::string();
      const std::string place = std::to_string(iterator);
      const std::string_view bytes = piece->view()[1].text();
      source_->add({"BF.SCANDUMP", filter.key, place});
      if (auto done = source_->flush(); !done) return done.error();
      if (auto done = target_->send({"BF.LOADCHUNK", filter.key, place, bytes}); !done) return done.error();
      advance(bytes.size());
      *piece = RedisReply(nullptr);  // Two pieces at once would take twice the memory.
      const auto stored = target_->receive();
      if (!stored) return stored.error();
      piece = source_->receive();
      if (piece && stored->view().is_error()) return std::string(stored->view().text());
    }
  }

  // --- after ----------------------------------------------------------------------------------------------

  // Keeps each filter with the same probability.
  void sample(const RemoteFilter& filter) {
    Sample one{.database = database_, .key = filter.key, .figures = filter.figures};
    const std::uint64_t place = std::uniform_int_distribution<std::uint64_t>(0, candidates_++)(random_);
    if (samples_.size() < samples_max) {
      samples_.push_back(std::move(one));
    } else if (place < samples_max) {
      samples_[static_cast<std::size_t>(place)] = std::move(one);
    }
  }

  Result<void> check_samples() {
    progress_.begin("checking", samples_.size());
    report_.questions = questions_per_sample;
    std::uint64_t done_count = 0;
    for (const Sample& one : samples_) {
      if (auto done = select(one.database); !done) return done;
      if (auto done = check(one); !done) return done;
      progress_.update(++done_count, 0);
    }
    progress_.end();
    return {};
  }

  // Asks both for the same random items. A filter's false positives are as many, and as good, as known items:
  // a copy has them all. The source may have got more since.
  Result<void> check(const Sample& one) {
    Keys items;
    for (std::size_t i = 0; i < questions_per_sample; ++i)
      items.push_back("sepal-migrate-" + std::to_string(random_()));
    std::vector<std::string_view> words{"BF.MEXISTS", one.key};
    words.insert(words.end(), items.begin(), items.end());
    target_->add(words);
    if (auto sent = target_->flush(); !sent) return sent;
    source_->add(words);
    source_->add({"BF.INFO", one.key});
    const auto theirs = target_->receive();
    if (!theirs) return theirs.error();
    const auto ours = source_->receive();
    if (!ours) return ours.error();
    const auto info = source_->receive();
    if (!info) return info.error();
    if (info->view().is_error()) return {};  // It is gone meanwhile.
    judge(one, ours->view(), theirs->view(), figures_of(info->view()).alike(one.figures));
    return {};
  }

  void judge(const Sample& one, ReplyView ours, ReplyView theirs, bool unchanged) {
    ++report_.samples;
    if (!unchanged) ++report_.changed;
    bool more = false;
    bool fewer = false;
    for (std::size_t i = 0; i < questions_per_sample; ++i) {
      const bool here = ours[i].number() == 1;
      const bool there = theirs[i].number() == 1;
      report_.hits += static_cast<std::uint64_t>(here && there);
      more = more || (there && !here);
      fewer = fewer || (here && !there);
    }
    if (!more && !(fewer && unchanged)) return;
    report_.keys.refuse("it answers differently on both sides", one.database, one.key);
  }

  const MigrateRequest& request_;
  Progress& progress_;
  std::unique_ptr<RedisConnection> source_;
  std::unique_ptr<RedisConnection> target_;
  DeadlineQuestion how_ = DeadlineQuestion::absolute;
  std::vector<std::uint32_t> databases_;
  std::uint32_t database_ = 0;
  std::uint64_t key_count_ = 0;
  std::uint64_t keys_seen_ = 0;
  std::uint64_t total_weight_ = 0;
  std::uint64_t weight_done_ = 0;
  std::mt19937_64 random_{drawn_seed()};
  std::uint64_t candidates_ = 0;
  std::vector<Sample> samples_;
  MigrateReport report_;
};

}  // namespace

Result<MigrateReport> migrate(const MigrateRequest& request, Progress& progress) {
  return Migration(request, progress).run();
}

}  // namespace sepal::tools
