import { createContext, useContext } from 'react'
import type { Feed } from './live/feed'

export const FeedContext = createContext<Feed | undefined>(undefined)

export function useFeed(): Feed {
  const feed = useContext(FeedContext)
  if (!feed) throw new Error('there is no feed above this component')
  return feed
}
