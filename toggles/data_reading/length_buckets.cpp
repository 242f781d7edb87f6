#include "plan/toggle.h"

// Text of varying length.
static constexpr const char* kTexts = R"(
data: {name: sums, train_size: 640, test_size: 64}
model: {name: layers, layers: [{name: embedding, entries: 13, width: 8}, {name: linear, out: 13}]}
eval.metrics: [exact_match]
)";

static const bellows::AddToggle length_buckets({
    .aliases = {"bucketing", "group_by_length", "max_tokens", "bucket_iterator", "sortagrad"},
    .elsewhere = "PyTorch: torchtext BucketIterator; Paddle: paddlenlp.data.SamplerHelper.sort",
    .what = "batches samples of like length",
    .idea = "Samples of like length share a batch, so less of it is padding. sorted: from short to "
            "long; buckets: rounds in random order; tokens: the same, and each batch of each rank "
            "has about the same sum of lengths, so that no rank waits for another.",
    .claim = "no figure in the sources; the share of padding falls, and so does the wait of ranks",
    .cost = "batches are less random; sorted loses the shuffle; with tokens the number of samples "
            "in a batch varies",
    .sources = "S4:140,141,142",
    .code = "data/loader/sampler.cpp: Sampler::plan",
    .footprint = "data.bucketed_batches",
    .same = bellows::Same::statistical,
    .values = {"off", "sorted", "buckets", "tokens"},
    .default_value = "off",
    .fast = "",  // it changes the order of samples
    .proof = kTexts,
    .measure = "configs/adder.yaml --value buckets data.digits=9",
    .no_gain = "configs/adder.yaml --value buckets data.digits=1",
    .set =
        [](bellows::Plan& plan, const std::string& value) {
          using bellows::LengthBuckets;
          plan.data.loader.sampler.length_buckets = value == "sorted"    ? LengthBuckets::sorted
                                                    : value == "buckets" ? LengthBuckets::buckets
                                                    : value == "tokens"  ? LengthBuckets::tokens
                                                                         : LengthBuckets::off;
        },
});
