// Slot: what a layer keeps between steps for its op: primitives, plans, workspaces, copies derived
// from a weight. The op fills it; the layer only owns it, so the steady state looks nothing up.
#pragma once
#include <memory>
#include <utility>
#include <vector>
#include "core/base/ref.h"

namespace bellows {

// Copies share their content, so a backward may outlive the layer. For the compute thread only.
class Slot {
 public:
  // The T made for this key; make() if there is none yet. Valid until the next call of get().
  template <class T, class Key, class Make> T& get(const Key& key, const Make& make) {
    auto& entries = state_->entries;
    for (const auto& entry : entries)
      if (entry->kind == &kind_of<T, Key> && static_cast<EntryOf<T, Key>&>(*entry).key == key)
        return static_cast<EntryOf<T, Key>&>(*entry).value;
    if (entries.size() == kMost) entries.erase(entries.begin());
    auto made = std::make_unique<EntryOf<T, Key>>(key, make());
    T& value = made->value;
    entries.push_back(std::move(made));
    return value;
  }

 private:
  // Forward and two backwards for a full, a last and an evaluation batch, each with the choice that
  // led to it and a plan for all threads and one for fewer, and some room.
  static constexpr size_t kMost = 36;
  template <class T, class Key> static inline const char kind_of = 0;  // its address is the type

  struct Entry {
    explicit Entry(const void* kind) : kind(kind) {}
    virtual ~Entry() = default;
    const void* kind;
  };
  template <class T, class Key> struct EntryOf : Entry {
    EntryOf(const Key& key, T&& value)
        : Entry(&kind_of<T, Key>), key(key), value(std::move(value)) {}
    Key key;
    T value;
  };
  struct State : RefCounted {
    std::vector<std::unique_ptr<Entry>> entries;
  };
  Ref<State> state_{new State};  // from the start: a copy made before the first get() shares it
};

}  // namespace bellows
