/* Sums over lists of float32 arrays, in one pass over each. Nothing here allocates, locks or knows Python.
 *
 * Values are added in single precision by 16 lanes, over blocks of 4,096; lanes and blocks are added in double. The
 * lanes are written out, so that the order of additions does not depend on the width of the processor's vectors. Arrays may lie anywhere: no alignment is needed.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LANES 16
#define BLOCK 4096 /* 256 values in each lane */
#define SUMS 6

/* A smaller mean square may have lost digits in single precision. */
#define SMALLEST_SQUARE 1e-24

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__GLIBC__)
#define CLONES __attribute__((target_clones("avx2", "default")))
#else
#define CLONES
#endif

#define EXPORTED __attribute__((visibility("default")))

/* The number of this interface: a caller of another one does without. */
EXPORTED int32_t trackside_interface(void) { return 3; }

static double added(const float *lanes) {
    double total = 0;
    for (int lane = 0; lane < LANES; lane++) total += lanes[lane];
    return total;
}

/* The sum of squares of values that single precision cannot square. */
static double wide_squares(const float *values, int64_t count) {
    double lanes[4] = {0};
    for (int64_t place = 0; place < count; place++) lanes[place % 4] += (double)values[place] * values[place];
    return lanes[0] + lanes[1] + lanes[2] + lanes[3];
}

/* The sum of squares of a block, of which single precision has found `total`. */
static double squared(double total, const float *values, int64_t count) {
    int is_held = total > (double)count * SMALLEST_SQUARE && total < INFINITY;
    return is_held ? total : wide_squares(values, count);
}

/* sum, sum of sizes, sum of squares, least, largest, number of zeros */
CLONES static void sums_of(const float *values, int64_t count, double *sums) {
    float least[LANES], largest[LANES];
    double total = 0, sizes = 0, squares = 0, zeros = 0;
    for (int lane = 0; lane < LANES; lane++) least[lane] = INFINITY, largest[lane] = -INFINITY;
    for (int64_t start = 0; start < count; start += BLOCK) {
        int64_t end = count - start < BLOCK ? count : start + BLOCK;
        int64_t place = start;
        float added_here[LANES] = {0}, sizes_here[LANES] = {0}, squares_here[LANES] = {0};
        int32_t zeros_here[LANES] = {0};
        for (; place + LANES <= end; place += LANES) {
            for (int lane = 0; lane < LANES; lane++) {
                float value = values[place + lane];
                added_here[lane] += value;
                sizes_here[lane] += fabsf(value);
                squares_here[lane] += value * value;
                least[lane] = value < least[lane] ? value : least[lane];
                largest[lane] = value > largest[lane] ? value : largest[lane];
                zeros_here[lane] += value == 0;
            }
        }
        for (; place < end; place++) {
            int lane = (int)(place - start) % LANES;
            float value = values[place];
            added_here[lane] += value;
            sizes_here[lane] += fabsf(value);
            squares_here[lane] += value * value;
            least[lane] = value < least[lane] ? value : least[lane];
            largest[lane] = value > largest[lane] ? value : largest[lane];
            zeros_here[lane] += value == 0;
        }
        total += added(added_here);
        sizes += added(sizes_here);
        squares += squared(added(squares_here), values + start, end - start);
        for (int lane = 0; lane < LANES; lane++) zeros += zeros_here[lane];
    }
    double smallest = least[0], greatest = largest[0];
    for (int lane = 1; lane < LANES; lane++) {
        smallest = least[lane] < smallest ? least[lane] : smallest;
        greatest = largest[lane] > greatest ? largest[lane] : greatest;
    }
    if (isnan(sizes)) smallest = greatest = NAN; /* a comparison passes over a NaN */
    sums[0] = total, sums[1] = sizes, sums[2] = squares, sums[3] = smallest, sums[4] = greatest, sums[5] = zeros;
}

/* Fills `sums`, of shape (SUMS, tensors). */
EXPORTED void trackside_sums(int64_t tensors, const float *const *values, const int64_t *counts, double *sums) {
    for (int64_t tensor = 0; tensor < tensors; tensor++) {
        double found[SUMS];
        sums_of(values[tensor], counts[tensor], found);
        for (int row = 0; row < SUMS; row++) sums[row * tensors + tensor] = found[row];
    }
}

/* Σ(x - mean)², around a number near the mean that single precision holds. */
CLONES static double spread_around(double mean, const float *values, int64_t count) {
    double totals[LANES] = {0}, squares[LANES] = {0}, total = 0, square = 0;
    double near = (float)mean;
    for (int64_t place = 0; place < count; place++) {
        double moved = values[place] - near;
        totals[place % LANES] += moved;
        squares[place % LANES] += moved * moved;
    }
    for (int lane = 0; lane < LANES; lane++) total += totals[lane], square += squares[lane];
    double spread = square - total * total / (double)count;
    return spread > 0 ? spread : 0;
}

/* Mean square over mean square deviation from where on Σx² - Σx·mean has lost too many digits. */
#define FLAT_MEAN 8.0
/* In single precision the squares of smaller or larger numbers are lost. */
#define SMALLEST_SQUARED 1e-12
#define LARGEST_SQUARED 1e15

enum { LEAST, LARGEST, SIZE, TOTAL, MEAN, ABS_TOTAL, ABS_MEAN, L2, VARIANCE, STD, REDUCTIONS };

/* Fills `found` with all reductions of an array, each at its number. Returns 0 for values that are not finite, or of
 * which single precision cannot hold the squares. */
static int reduced(const float *values, int64_t length, double *found) {
    double sums[SUMS], count = (double)length;
    sums_of(values, length, sums);
    double total = sums[0], sizes = sums[1], least = sums[3], largest = sums[4];
    double size = largest > -least ? largest : -least;
    if (!(size < LARGEST_SQUARED && (size > SMALLEST_SQUARED || size == 0))) return 0; /* a NaN is neither */
    double mean = total / count, products = total * mean, spread = sums[2] - products;
    if (!(spread * FLAT_MEAN > products)) spread = least == largest ? 0 : spread_around(mean, values, length);
    double variance = length > 1 ? spread / (count - 1) : NAN;
    found[LEAST] = least, found[LARGEST] = largest, found[SIZE] = size;
    found[TOTAL] = total, found[MEAN] = mean, found[ABS_TOTAL] = sizes, found[ABS_MEAN] = sizes / count;
    found[L2] = sqrt(spread + total * total / count), found[VARIANCE] = variance, found[STD] = sqrt(variance);
    return 1;
}

/* Fills `row`: of each tensor in turn, as many of its reductions as `cells` has for it, each at its place in the row.
 *
 * A cell is a number of a reduction and a place; those of tensor t begin at `firsts[t]`, and `firsts` ends with their
 * number. Returns 0 where a tensor has values that `reduced` refuses: the row then has no meaning. */
EXPORTED int32_t trackside_reductions(
    int64_t tensors, const float *const *values, const int64_t *counts, const int64_t *firsts, const int64_t *cells,
    float *row
) {
    for (int64_t tensor = 0; tensor < tensors; tensor++) {
        double found[REDUCTIONS];
        if (!reduced(values[tensor], counts[tensor], found)) return 0;
        for (int64_t cell = firsts[tensor]; cell < firsts[tensor + 1]; cell++) {
            row[cells[2 * cell + 1]] = (float)found[cells[2 * cell]];
        }
    }
    return 1;
}

CLONES static double squares_of(const float *values, int64_t count) {
    double total = 0;
    for (int64_t start = 0; start < count; start += BLOCK) {
        int64_t end = count - start < BLOCK ? count : start + BLOCK;
        int64_t place = start;
        float squares_here[LANES] = {0};
        for (; place + LANES <= end; place += LANES) {
            for (int lane = 0; lane < LANES; lane++) squares_here[lane] += values[place + lane] * values[place + lane];
        }
        for (; place < end; place++) squares_here[(place - start) % LANES] += values[place] * values[place];
        total += squared(added(squares_here), values + start, end - start);
    }
    return total;
}

/* Fills `squares`, of shape (tensors,), with the sum of squares of each. */
EXPORTED void trackside_squares(int64_t tensors, const float *const *values, const int64_t *counts, double *squares) {
    for (int64_t tensor = 0; tensor < tensors; tensor++) squares[tensor] = squares_of(values[tensor], counts[tensor]);
}

/* The same, and a copy of the values into `copies`. */
EXPORTED void trackside_copy_squares(
    int64_t tensors, const float *const *values, float *const *copies, const int64_t *counts, double *squares
) {
    for (int64_t tensor = 0; tensor < tensors; tensor++) {
        double total = 0;
        for (int64_t start = 0; start < counts[tensor]; start += BLOCK) { /* in pieces that the cache still holds */
            int64_t count = counts[tensor] - start < BLOCK ? counts[tensor] - start : BLOCK;
            memcpy(copies[tensor] + start, values[tensor] + start, (size_t)count * sizeof(float));
            total += squares_of(copies[tensor] + start, count);
        }
        squares[tensor] = total;
    }
}

/* Fills `squares` with the sum of squared differences of each tensor to `before`, which becomes the difference. */
EXPORTED void trackside_change_squares(
    int64_t tensors, const float *const *values, float *const *before, const int64_t *counts, double *squares
) {
    for (int64_t tensor = 0; tensor < tensors; tensor++) {
        const float *now = values[tensor];
        float *changed = before[tensor];
        double total = 0;
        for (int64_t start = 0; start < counts[tensor]; start += BLOCK) {
            int64_t count = counts[tensor] - start < BLOCK ? counts[tensor] - start : BLOCK;
            for (int64_t place = start; place < start + count; place++) changed[place] -= now[place];
            total += squares_of(changed + start, count);
        }
        squares[tensor] = total;
    }
}

/* A fixed sample of each tensor: `counts` values, `strides` apart. Fills `found` with the sum of squared differences to
 * `before`, one buffer for all of them, and that of the values; these become the next `before`. */
EXPORTED void trackside_sampled_change(
    int64_t tensors, const float *const *values, const int64_t *strides, const int64_t *counts, float *before, double *found
) {
    double changes = 0, sizes = 0;
    for (int64_t tensor = 0; tensor < tensors; tensor++) {
        const float *now = values[tensor];
        int64_t stride = strides[tensor];
        for (int64_t place = 0; place < counts[tensor]; place++) {
            double value = now[place * stride], change = value - *before;
            changes += change * change;
            sizes += value * value;
            *before++ = (float)value;
        }
    }
    found[0] = changes, found[1] = sizes;
}
