#include "app/threads/journal_view.hpp"

#include <sepal/base/assert.hpp>

#include <utility>

namespace sepal::app {

void JournalView::show(storage::Journal& journal) {
  SEPAL_ASSERT(journal_ == nullptr && journal.position() >= begin_.load(),
               "the journal is shown once, and begins where it was said to begin");
  journal_ = &journal;
}

// Each member reads the pointer once: between two reads it may turn from null to the journal.
std::uint64_t JournalView::position() const {
  const storage::Journal* const journal = journal_;
  return journal == nullptr ? begin_.load() : journal->position();
}

std::uint64_t JournalView::gap() const {
  const storage::Journal* const journal = journal_;
  return journal == nullptr ? 0 : journal->gap();
}

void JournalView::generation_saved(std::uint64_t position) {
  storage::Journal* const journal = journal_;
  if (journal != nullptr) journal->generation_saved(position);
}

void JournalView::directory_replaced() {
  storage::Journal* const journal = journal_;
  if (journal != nullptr) journal->directory_replaced();
}

void JournalView::save_failed(const std::string& reason, std::uint64_t lacking_bytes) {
  storage::Journal* const journal = journal_;
  if (journal != nullptr) journal->save_failed(reason, lacking_bytes);
}

Result<void> JournalView::sync_until(std::uint64_t position) {
  storage::Journal* const journal = journal_;
  return journal == nullptr ? Result<void>() : journal->sync_until(position);
}

std::uint64_t JournalView::durable_position() const {
  const storage::Journal* const journal = journal_;
  return journal == nullptr ? 0 : journal->durable_position();
}

command::JournalStatus JournalView::status() const {
  const storage::Journal* const journal = journal_;
  if (journal == nullptr) return {};
  storage::JournalStatus status = journal->status();
  return {.accepting = status.accepting,
          .refusal = std::move(status.refusal),
          .position = status.position,
          .synced_position = status.synced_position,
          .bytes = status.byte_count,
          .syncs = status.syncs,
          .failed_syncs = status.failed_syncs,
          .waits_for_save = status.waits_for_save,
          .resumes = status.resumes};
}

}  // namespace sepal::app
