/* exp of a vector. */
#pragma once
#include "vectors.h"

/* exp(x) to 2 units in the last place, 2^-126 below -87.3: Cody and Waite's reduction, a polynomial of degree 6; NaN stays NaN. */
INLINE vec expo(vec x) {
    x = choose(x < all(-87.3f), all(-87.3f), x);
    x = choose(x > all(88.0f), all(88.0f), x);
    const vec t = x * 1.44269504f + 12582912.0f, n = t - 12582912.0f, r = x - n * 0.693359375f + n * 2.12194440e-4f;
    vec p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    return p * (vec)(((mask)t + 127) << 23);
}
