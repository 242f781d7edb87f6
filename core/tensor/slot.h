// Slot: state that a layer keeps between steps for its op: primitives, plans, workspaces, copies
// derived from a weight. The op fills it, the layer owns it, and steps need no global lookup.
#pragma once
#include <memory>
#include <utility>
#include <vector>
#include "core/base/ref.h"

namespace bellows {

// Copies share their content, so a backward may outlive the layer. For the compute thread only.
class Slot {
 public:
  // Returns the T made for this key; calls make() if there is none. Valid until the next get().
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
  // Forward and two backwards, for a full, a last and an evaluation batch, each with its choice of
  // algorithm and with a plan for all threads and one for fewer; and some spare entries.
  static constexpr size_t kMost = 36;
  template <class T, class Key> static inline const char kind_of = 0;  // address denotes the type

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
  Ref<State> state_{new State};  // made now, so that early copies share it
};

}  // namespace bellows
