#include "data/sets/arrays.h"
#include <algorithm>
#include "core/base/utf8.h"

namespace bellows {

// Returns the number of classes in y[i] for each sample, without those that are -1; undefined if
// all samples have the same number.
static Tensor count_targets(const Arrays& a, int64_t classes, bool varies,
                            const std::string& origin) {
  const Tensor counts({a.size()}, DType::i64);
  const int64_t width = a.y.numel() / std::max<int64_t>(1, a.y.dim(0));
  bool all = true;
  visit_dtype(a.y.dtype(), [&]<class T>(T) {
    for (int64_t i = 0; i < a.size(); ++i) {
      const int64_t begin = varies ? a.offsets.data<int64_t>()[i] : i;
      const int64_t end = varies ? a.offsets.data<int64_t>()[i + 1] : i + 1;
      int64_t& count = counts.data<int64_t>()[i] = 0;
      for (int64_t k = begin * width; k < end * width; ++k) {
        const auto value = int64_t(a.y.ptr<T>()[k]);
        if (value < -1 || value >= classes)
          fail(Exit::data, origin, ": sample ", i, " has class ", value, ", not one of 0 to ",
               classes - 1);
        count += value >= 0;
      }
      all = all && count == (end - begin) * width;
    }
  });
  return all && !a.offsets.defined() ? Tensor() : counts;
}

static Tensor lengths_of(const Tensor& offsets) {
  const Tensor lengths({offsets.numel() - 1}, DType::i64);
  const auto from = offsets.data<int64_t>();
  for (int64_t i = 0; i < lengths.numel(); ++i) lengths.ptr<int64_t>()[i] = from[i + 1] - from[i];
  return lengths;
}

ArrayDataset::ArrayDataset(DatasetInfo info, Arrays arrays, std::string origin)
    : Dataset(std::move(info)), arrays_(std::move(arrays)), origin_(std::move(origin)) {
  info_.input.varies = arrays_.offsets.defined();
  if (arrays_.size() == 0) fail(Exit::data, origin_, ": no samples");
  if (info_.classes)
    arrays_.targets = count_targets(arrays_, info_.classes, info_.target.varies, origin_);
  if (!arrays_.offsets.defined()) return;
  if (!info_.classes) arrays_.targets = full({size()}, 1, DType::i64);
  arrays_.lengths = lengths_of(arrays_.offsets);
  const int64_t longest = std::ranges::max(arrays_.lengths.data<int64_t>());
  info_.input.shape[0] = std::max(info_.input.shape[0], longest);
  if (info_.target.varies) info_.target.shape[0] = info_.input.shape[0];
}

void Sequences::add(std::span<const int64_t> x, std::span<const int64_t> y) {
  x_.insert(x_.end(), x.begin(), x.end());
  y_.insert(y_.end(), y.begin(), y.end());
  offsets_.push_back(std::ssize(x_));
}

Arrays Sequences::take() const {
  return {.x = tensor_of(x_, {std::ssize(x_)}),
          .y = tensor_of(y_, {std::ssize(y_)}),
          .offsets = tensor_of(offsets_, {std::ssize(offsets_)})};
}

Tensor tokens_of(const NoOptions&, const GivenInputs& given) {
  const std::vector<std::string>& names = given.info.names;
  const bool named = !names.empty() && given.info.target.varies;  // else names of labels
  std::vector<int64_t> tokens;
  for (const char c : given.bytes) {
    const auto name = std::ranges::find(names, std::string(1, c));
    if (named && name == names.end())
      fail(Exit::data, printable(given.bytes), ": ", printable(std::string(1, c)),
           " is not a character of the data set");
    tokens.push_back(named ? name - names.begin() : int64_t{uint8_t(c)});
  }
  const int64_t size = std::ssize(tokens), longest = given.info.input.shape[0];
  if (size < 1 || size > longest)
    fail(Exit::data, printable(given.bytes), ": ", size, " characters, not from 1 to ", longest);
  return tensor_of(tokens, {1, size});
}

static void collate_cpu(const Tensor& out, const Tensor& flat, const Tensor& offsets,
                        const Tensor& samples, double fill) {
  const int64_t width = flat.numel() / flat.dim(0), room = out.numel() / out.dim(0);
  const int64_t* const at = offsets.defined() ? offsets.ptr<int64_t>() : nullptr;
  visit_rows(out, flat, [&]<class To, class From>(To, From) {
    To* to = out.ptr<To>();
    for (const int64_t sample : samples.data<int64_t>()) {
      const int64_t begin = at ? at[sample] : sample, end = at ? at[sample + 1] : sample + 1;
      const From* const from = flat.ptr<From>() + begin * width;
      std::copy_n(from, (end - begin) * width, to);
      std::fill(to + (end - begin) * width, to + room, To(fill));
      to += room;
    }
  });
}
static const bool cpu = kernels::collate.on(Device::cpu, collate_cpu);

}  // namespace bellows
